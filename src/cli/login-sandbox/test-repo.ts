/**
 * `craik test-repo`: runs the tests of a repository in a login sandbox, and saves their output like any headless run.
 */
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import { quoteArgument } from '../../lib/shlex.ts'
import type { TypedOptions } from '../../login-sandbox/login-sandbox-settings.ts'
import type { NounBuilder } from '../context.ts'
import { runHeadless } from './run-headless.ts'
import { addLoginOptions, INBOX_HELP } from './select-sandbox.ts'

/**
 * A folder of the workspace, or a repository on GitHub: `name` for a repository of the login itself, or `owner/name`.
 */
const NAME = /^(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})\/)?[A-Za-z0-9._][A-Za-z0-9._-]{0,99}$/

const HELP = `
Tests the folder of that name in the workspace. If it is missing, clones
github.com/LOGIN/NAME to ~/repos in the sandbox, with the GitHub login, through
the gateway. Runs the first that applies: npm test, make test, pytest, cargo
test, go test. Saves the output like craik run-headless.

Exit code: that of the tests, or 66 if the repository has none. Before they
start, 2 if the sandbox is not running, or after wrong usage.

Examples:
  craik test-repo .
  craik test-repo parser
  craik test-repo octo/parser
`

export const testRepoCommand: NounBuilder = (context) =>
  addLoginOptions(new Command('test-repo'))
    .argument('<name>', 'folder of the workspace, or repository on GitHub')
    .option('--inbox <folder>', INBOX_HELP)
    .addHelpText('after', HELP)
    .action(async (name: string, options: TypedOptions) => {
      if (!NAME.test(name) || name.split('/').includes('..'))
        throw new CraikError('usage', 'cannot parse the repository: expected NAME or OWNER/NAME', {
          hint: 'craik test-repo octo/parser',
        })
      await runHeadless(context, options, (login) => ['/bin/sh', '-c', scriptFor(name, login)])
    })

function scriptFor(name: string, login: string): string {
  const remote = name.includes('/') ? name : `${login}/${name}`
  return `set -eu
name=${quoteArgument(name)}
remote=${quoteArgument(remote)}
if [ -d "$name" ]; then cd "$name"; else
  folder="$HOME/repos/$remote"
  if [ -d "$folder/.git" ]; then git -C "$folder" pull --ff-only --quiet
  else mkdir -p "$(dirname "$folder")"; git clone --quiet "https://github.com/$remote" "$folder"; fi
  cd "$folder"
fi
${CHOOSE}`
}

/** Installs dependencies only if a lock file names them, and only from hosts that egress rules allow. */
const CHOOSE = `if [ -f package.json ]; then
  if [ ! -d node_modules ] && [ -f package-lock.json ]; then npm ci --no-audit --no-fund; fi
  exec npm test
elif [ -f Makefile ] && grep -q '^test:' Makefile; then exec make test
elif [ -f pyproject.toml ] || [ -f pytest.ini ] || [ -f setup.py ]; then exec python3 -m pytest
elif [ -f Cargo.toml ]; then exec cargo test
elif [ -f go.mod ]; then exec go test ./...
fi
echo "no tests found: no package.json, Makefile with test, pyproject.toml, Cargo.toml or go.mod" >&2
exit 66`
