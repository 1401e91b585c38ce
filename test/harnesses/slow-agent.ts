/** The fixture's agent in a sandbox, replaced by another program, such as one that takes a while to write down what was said. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { packageFile } from '../../src/lib/package-files.ts'

/** A shell's, with a program as `$0`: it is the fixture's agent from now on. */
export const AGENT_IN_PLACE =
  'mkdir -p ~/.local/share/craik-fixture && printf %s "$0" > ~/.local/share/craik-fixture/agent.mjs'

/** Writes `~/left` a while after its input has ended. */
export const SLOW_TO_LEAVE = `${readFileSync(fileURLToPath(packageFile('image/harnesses/fixture/agent.mjs')), 'utf8')}
import { writeFileSync } from 'node:fs'
process.stdin.on('end', () => setTimeout(() => writeFileSync(join(homedir(), 'left'), 'in order'), 1500))
`
