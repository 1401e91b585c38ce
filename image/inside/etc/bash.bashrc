# What an interactive bash reads first: a prompt that says where one is, and a history that ends with the sandbox.
if [ -n "${PS1-}" ]; then
  PS1=' ${CRAIK_SANDBOX_NAME:-\h} \w \$ '
  # Whoever wants to keep it links the usual file to where it is kept.
  [ -L ~/.bash_history ] || HISTFILE=/tmp/.bash_history
  shopt -s checkwinsize
fi
