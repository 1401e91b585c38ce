/** Replaces the fixture's agent in a sandbox with another program, such as one that saves its conversation slowly. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { packageFile } from '../../src/lib/package-files.ts'

/** A shell script. It installs the program in `$0` as the fixture's agent. */
export const AGENT_IN_PLACE =
  'mkdir -p ~/.local/share/craik-fixture && printf %s "$0" > ~/.local/share/craik-fixture/agent.mjs'

/** Writes `~/left` 1.5 seconds after its input has ended. */
export const SLOW_TO_LEAVE = `${readFileSync(fileURLToPath(packageFile('image/harnesses/fixture/agent.mjs')), 'utf8')}
import { writeFileSync } from 'node:fs'
process.stdin.on('end', () => setTimeout(() => writeFileSync(join(homedir(), 'left'), 'in order'), 1500))
`
