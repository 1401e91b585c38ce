/**
 * The script that lists the packages, programs and variables of a sandbox. It runs in the sandbox with `/bin/sh -s`. It
 * writes records that end with a NUL: the name of a part (`#npm`), its entries (`name=value`), and `#end` when nothing
 * is missing.
 */

/**
 * The environment is that of a login shell, so that it includes the variables of a profile. The output of the profile
 * is dropped.
 */
export function stateScript(): string {
  return SCRIPT
}

const SCRIPT = `part() { printf '#%s\\0' "$1"; }
record() { printf '%s\\0' "$1"; }

part debian
if command -v dpkg-query >/dev/null 2>&1; then
  dpkg-query -W -f '\${db:Status-Abbrev}|\${Package}=\${Version}\\n' 2>/dev/null | sed -n 's/^ii *|//p' | tr '\\n' '\\0'
fi

part npm
for file in "$HOME"/.local/lib/node_modules/*/package.json "$HOME"/.local/lib/node_modules/@*/*/package.json; do
  [ -f "$file" ] || continue
  name=\${file#"$HOME"/.local/lib/node_modules/}
  version=$(sed -n 's/^\\(  \\|	\\|{ *\\)\\{0,1\\}"version" *: *"\\([^"]*\\)".*/\\2/p' "$file" | head -n 1)
  [ -n "$version" ] || version=$(tr ',{' '\\n\\n' <"$file" | sed -n 's/^ *"version" *: *"\\([^"]*\\)".*/\\1/p' | head -n 1)
  record "\${name%/package.json}=$version"
done

part pip
for folder in "$HOME"/.local/lib/python3*/site-packages/*.dist-info; do
  [ -d "$folder" ] || continue
  name=\${folder##*/}
  name=\${name%.dist-info}
  record "\${name%%-*}=\${name#*-}"
done

part programs
for file in "$HOME"/bin/* "$HOME"/.local/bin/*; do
  if [ -e "$file" ] || [ -L "$file" ]; then record "\${file#"$HOME"/}="; fi
done

part environment
shell=$(command -v bash || command -v sh)
{ timeout 5 "$shell" -lc 'cat /proc/self/environ >&3' </dev/null >/dev/null 2>&1; } 3>&1 || cat /proc/self/environ

part end
`
