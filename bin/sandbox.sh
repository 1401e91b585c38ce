#!/bin/sh
# The sandbox of your login, from a clone: installs what Craik needs on first use, says so, and hands over to craik.
set -eu
# PATH may have a folder that a sandbox can write (virtualenv, npm run): `command -p` takes the system's programs.
case $0 in */*) here=$0 ;; *) here=./$0 ;; esac
while [ -L "$here" ]; do
  link=$(command -p readlink "$here")
  case $link in /*) here=$link ;; *) here=${here%/*}/$link ;; esac
done
root=$(CDPATH='' cd "${here%/*}/.." && pwd -P)

verbs='up down enter exec run-headless status list inspect doctor rebuild save verify-llm-auth test-repo prune nuke profile-new profile-list'

usage() {
  echo "usage: sandbox.sh [--profile=NAME] VERB [options]"
  echo "  $(echo "$verbs" | command -p fold -s -w 76 | command -p sed '2,$s/^/  /')"
  echo "  options of a verb:  sandbox.sh VERB --help"
}

# A profile may stand before the verb; behind it, it is an option like any other.
while [ $# -gt 0 ]; do
  case $1 in
    --profile=*) SANDBOX_PROFILE=${1#--profile=}; export SANDBOX_PROFILE; shift ;;
    --profile)
      [ $# -ge 2 ] || { usage >&2; exit 2; }
      SANDBOX_PROFILE=$2; export SANDBOX_PROFILE; shift 2 ;;
    -h | --help | help) usage; exit 0 ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || { usage >&2; exit 2; }
case " $verbs " in
  *" $1 "*) ;;
  *) echo "sandbox.sh: unknown verb $1" >&2; usage >&2; exit 2 ;;
esac

# The two that are never let near a sandbox, before anything is installed or started. Craik refuses them too.
for name in GITHUB_TOKEN GH_ENTERPRISE_TOKEN; do
  eval "is_set=\${$name+yes}"
  case "$1:$is_set" in
    up:yes | rebuild:yes)
      echo "sandbox.sh: the environment contains $name, which sandboxes must not see" >&2
      echo "  unset it for this command:  env -u $name sandbox.sh $1" >&2
      exit 64 ;;
  esac
done

# A place to run in: a container engine that answers, or bubblewrap. Only root can install one, and only where Debian is.
has() { command -v "$1" >/dev/null 2>&1; }
engine() { [ -S /var/run/docker.sock ] || [ -n "${CRAIK_ENGINE:-}${DOCKER_HOST:-}" ] || [ -S "${XDG_RUNTIME_DIR:-/nonexistent}/podman/podman.sock" ]; }
wanted=
case $1 in
  up | rebuild)
    if engine; then has mmdebstrap || wanted=mmdebstrap
    else has bwrap || wanted=bubblewrap
    fi ;;
esac
if [ -n "$wanted" ]; then
  if [ "$(command -p id -u)" = 0 ] && has apt-get; then
    echo "  sandbox.sh · first start: installing $wanted …" >&2
    DEBIAN_FRONTEND=noninteractive command -p apt-get -qq install --yes --no-install-recommends "$wanted" >/dev/null 2>&1 ||
      { command -p apt-get -qq update >&2 && DEBIAN_FRONTEND=noninteractive command -p apt-get -qq install --yes --no-install-recommends "$wanted" >/dev/null; } ||
      { echo "sandbox.sh: could not install $wanted" >&2; exit 69; }
  elif [ "$wanted" = bubblewrap ]; then
    echo "sandbox.sh: a sandbox needs Docker, Podman or bubblewrap; install one:  sudo apt-get install bubblewrap" >&2
    exit 69
  fi
fi

exec "$root/craik" "$@"
