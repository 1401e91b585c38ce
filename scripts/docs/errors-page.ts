/** Builds `docs/reference/errors.md`: the table of `src/errors.ts`, and the commands with their own exit codes. */
import { ERRORS } from '../../src/errors.ts'
import { escapeText, table } from './markdown.ts'

export function errorsPage(): string {
  const errors = Object.entries(ERRORS).sort(([, a], [, b]) => a.exit - b.exit)
  const meanings = errors.map(([code, { exit, status, meaning }]) => [
    String(exit),
    `\`${code}\``,
    String(status),
    escapeText(meaning),
  ])
  const hints = errors
    .filter(([, { hint }]) => hint !== '')
    .map(([code, { hint }]) => [`\`${code}\``, escapeText(hint)])
  return `# Errors and exit codes

Generated from \`src/errors.ts\` by \`npm run docs\`. An error is one line on stderr that says what failed, then a line
that says what to do. \`CRAIK_DEBUG=1\` adds the stack trace.

${table(['exit', 'code', 'HTTP', 'meaning'], [['0', '', '200', 'Done.'], ...meanings])}

## Next steps

Most errors print a more exact next step than this one.

${table(['code', 'next step'], hints)}

## Exit code 2 of \`craik receipts verify\`

| stdout | meaning |
|---|---|
| a report; with \`--json\` it has \`"outcome": "incomplete"\` | Nothing contradicts, but parts of the log are missing. |
| nothing | The arguments are wrong: see the line on stderr. |

The report says which parts are missing. Scripts that must tell the two apart read \`outcome\`: it is \`ok\` with
exit code 0, \`tampered\` with 1 and \`incomplete\` with 2.

## Commands with exit codes of their own

| command | exit codes besides those above |
|---|---|
| \`craik agent audit\`, \`craik policy test\` | 1: a check failed |
| \`craik doctor\` | 1: Craik itself cannot run on this machine |
| \`craik harness update --check\` | 1: a newer version exists |
| \`craik prompt\` | 1: the agent stopped before it was done |
| \`craik run execute\`, \`craik run resume\`, \`craik agent prompt\` | 1: the run failed or was interrupted; 76, 77, 79, 80, 124 and 130 as above |
| \`craik run apply\` | 1: a file could not be written; 4: a conflict |
| \`craik shell\` | that of the command; 124 after \`--timeout\`, 125 if it wrote too much output, 126 if it could not be started |
| \`craik sandbox exec\`, \`craik exec\` | that of the command; 82 if it wrote too much output, 126 if it could not be started |

A command that a signal ended has the exit code 128 plus the number of the signal: 137 after SIGKILL or without memory,
141 if the reader of its output exited first.
`
}
