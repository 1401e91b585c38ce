/**
 * The script that runs in a login's sandbox at each `up`, with `/bin/sh -s` as the agents' user. It links paths of the
 * home to the volume, and sets up git over HTTPS under the login's name. It can run repeatedly, and be killed at any
 * moment. It moves existing files into the volume or sets them aside, and never removes them.
 */
import { CraikError } from '../../errors.ts'
import { joinCommand, quoteArgument } from '../../lib/shlex.ts'
import { LLM_STATE, VOLUME_LINKS } from './mirrors.ts'

export interface SetUpOptions {
  /** The absolute path of the sandbox home. */
  readonly home: string
  readonly git: { readonly name: string; readonly email: string }
  /** The settings of programs for paths where no file exists yet. Settings outside the volume are left out. */
  readonly settings?: readonly { readonly path: string; readonly content: string }[]
}

/** Returns the script. It exits with 1 when a step failed, and reports the step on standard error. */
export function setUpScript({ home, git, settings = [] }: SetUpOptions): string {
  for (const text of [home, git.name, git.email])
    if (/[\0\r\n]/.test(text))
      throw new CraikError('usage', 'the git name, the git email or the home folder contains a line break', {
        hint: 'correct them:  git config --global user.name NAME && git config --global user.email EMAIL',
      })
  const seeds = settings.flatMap(({ path, content }) => {
    const mirror = VOLUME_LINKS.find((one) => one.home === path || path.startsWith(`${one.home}/`))
    if (mirror === undefined || content.includes('\0')) return []
    return [joinCommand(['seed', mirror.volume + path.slice(mirror.home.length), content])]
  })
  const links = VOLUME_LINKS.map((mirror) =>
    joinCommand([`link_${mirror.kind}`, mirror.home, mirror.volume, ...(mirror.companions ?? [])]),
  )
  return [
    `home=${quoteArgument(home)}`,
    `state=$home/${LLM_STATE}`,
    LINKS,
    ...links,
    ...seeds,
    joinCommand(['git_name', git.name]),
    joinCommand(['git_email', git.email]),
    GIT,
    'exit "$failed"',
    '',
  ].join('\n')
}

/** A file in the home that distinguishes a linked home from a new one. */
const LINKED = '.config/craik-links'

/**
 * If a file replaced one of Craik's links, its program wrote it, and it is newer than the volume's file. In a home that
 * was never linked, the volume's file is newer.
 */
const LINKS = `umask 077
HOME=$home
export HOME
linked=$home/${LINKED}
names=$(cat -- "$linked" 2>/dev/null)
failed=0
complain() { printf 'craik: %s\\n' "$1" >&2; failed=1; }
there() { [ -e "$1" ] || [ -L "$1" ]; }
is_folder() { [ -d "$1" ] && [ ! -L "$1" ]; }
is_file() { [ -f "$1" ] && [ ! -L "$1" ]; }
was_linked() { case "
$names
" in *"
$1
"*) ;; *) return 1 ;; esac; }
leads_to() { [ -L "$1" ] && [ "$(readlink -- "$1")" = "$2" ]; }

# The folders of a path in the home, made as far as they are not there. Not through a link.
parents() {
  path=$home rest=$1
  while :; do
    case $rest in */*) ;; *) return 0 ;; esac
    path=$path/\${rest%%/*} rest=\${rest#*/}
    [ ! -L "$path" ] || return 1
    [ -d "$path" ] || mkdir -- "$path" || return 1
  done
}

free_name() {
  number=1
  while there "$1.set-aside-$number"; do number=$((number + 1)); done
  printf '%s' "$1.set-aside-$number"
}

# Whole or not at all, also from one file system to another.
copy_over() { cp -pP -- "$1" "$2.craik-moving" && mv -f -- "$2.craik-moving" "$2"; }

move_over() {
  if is_file "$1" || [ -L "$1" ]; then
    copy_over "$1" "$2" && rm -f -- "$1"
  else
    mv -- "$1" "$2"
  fi
}

merge() {
  for entry in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    if there "$entry"; then merge_one "$entry" "$2/\${entry##*/}" || return 1; fi
  done
}

merge_one() {
  if is_folder "$1" && { is_folder "$2" || ! there "$2"; }; then
    mkdir -p -- "$2" && merge "$1" "$2" && rmdir -- "$1"
  elif ! there "$2"; then
    move_over "$1" "$2"
  elif is_file "$1" && is_file "$2" && cmp -s -- "$1" "$2"; then
    rm -f -- "$1"
  else
    move_over "$1" "$(free_name "$2")"
  fi
}

# A file with what belongs to it. All of it is there before any of it goes; the file itself comes last and goes last.
move_all() {
  from=$1 onto=$2
  shift 2
  for suffix in "$@" ''; do
    if there "$from$suffix"; then copy_over "$from$suffix" "$onto$suffix" || return 1; fi
  done
  remove_all "$from" "$@"
}

remove_all() {
  from=$1
  shift
  for suffix in "$@" ''; do rm -f -- "$from$suffix" || return 1; done
}

same_all() {
  from=$1 onto=$2
  shift 2
  for suffix in '' "$@"; do
    if [ -z "$suffix" ] || there "$from$suffix"; then
      is_file "$from$suffix" && is_file "$onto$suffix" && cmp -s -- "$from$suffix" "$onto$suffix" || return 1
    fi
  done
}

# Whatever is at the name by now is left alone.
put_link() {
  if ! there "$home/$1" && ln -s -- "$state/$2" "$home/$1"; then
    remember "$1"
  else
    complain "could not link ~/$1 into ~/${LLM_STATE}"
  fi
}

remember() {
  was_linked "$1" || printf '%s\\n' "$1" >>"$linked"
}

link_folder() {
  at=$home/$1 to=$state/$2
  if ! parents "$1" || ! mkdir -p -- "$to"; then
    complain "could not link ~/$1: a part of its path is not a folder"
  elif leads_to "$at" "$to"; then
    remember "$1"
  else
    if [ -L "$at" ]; then
      rm -f -- "$at"
    elif is_folder "$at"; then
      merge "$at" "$to" && rmdir -- "$at"
    elif there "$at"; then
      mv -- "$at" "$(free_name "$at")"
    fi
    put_link "$1" "$2"
  fi
}

link_file() {
  name=$1 within=$2 at=$home/$1 to=$state/$2
  shift 2
  if ! parents "$name" || ! mkdir -p -- "\${to%/*}"; then
    complain "could not link ~/$name: a part of its path is not a folder"
  elif leads_to "$at" "$to"; then
    remember "$name"
  else
    if [ -L "$at" ]; then
      rm -f -- "$at"
    elif ! is_file "$at"; then
      if there "$at"; then mv -- "$at" "$(free_name "$at")"; fi
    elif ! there "$to"; then
      move_all "$at" "$to" "$@"
    elif same_all "$at" "$to" "$@"; then
      remove_all "$at" "$@"
    elif was_linked "$name"; then
      move_all "$to" "$(free_name "$to")" "$@" && move_all "$at" "$to" "$@"
    else
      move_all "$at" "$(free_name "$to")" "$@"
    fi
    put_link "$name" "$within"
  fi
}

seed() {
  if ! there "$state/$1"; then
    printf '%s' "$2" >"$state/$1.craik-moving" && mv -f -- "$state/$1.craik-moving" "$state/$1"
  fi || complain "could not write the settings $1 to ~/${LLM_STATE}"
}

git_name() { git_name=$1; }
git_email() { git_email=$1; }
mkdir -p -- "$home/.config" "$state" || complain "~/${LLM_STATE} is missing"`

/**
 * A lock that stays was left by a killed git and would block every later write. `insteadOf` is a list: the script adds
 * each address unless the list contains it.
 */
const GIT = `lock=$home/.gitconfig.lock
tries=0
while there "$lock" && [ "$tries" -lt 10 ]; do
  tries=$((tries + 1))
  sleep 0.1
done
rm -f -- "$lock"
set_git() { git config --file "$home/.gitconfig" "$@" || complain "git config $2 failed"; }
rewrite() {
  git config --file "$home/.gitconfig" --get-all url.https://github.com/.insteadOf | grep -Fxq -- "$1" ||
    set_git --add url.https://github.com/.insteadOf "$1"
}
if command -v git >/dev/null 2>&1; then
  rewrite git@github.com:
  rewrite ssh://git@github.com/
  set_git --replace-all user.name "$git_name"
  set_git --replace-all user.email "$git_email"
  set_git --replace-all commit.gpgsign false
  set_git --replace-all tag.gpgSign false
else
  complain 'git is not installed'
fi`
