/** The programs in `bin`. Each is a shell script that starts the real program, wherever the folder is. */
import { INSIDE } from '../../sidecar/protocol.ts'
import type { Architecture, HarnessProgram } from './harness-catalogue.ts'

/**
 * The script must start by its path, as a search of PATH does, so that `$0` leads to the folder. The recipe's schema
 * restricts all text that is inserted here.
 */
export function wrapperOf(program: HarnessProgram, architecture: Architecture): string {
  if ('runtime' in program) return `#!/bin/sh\nexec ${INSIDE.runtime}/node "$@"\n`
  const real = `"\${0%/*}/../${fileOf(program, architecture)}"`
  if ('native' in program) return `#!/bin/sh\nexec ${real} "$@"\n`
  const variables = Object.entries(program.programs ?? {}).map(
    ([name, other]) => `export ${name}="\${${name}:-\${0%/*}/${other}}"\n`,
  )
  return `#!/bin/sh\n${variables.join('')}exec ${INSIDE.runtime}/node ${real} "$@"\n`
}

/** Returns the file that a program starts, relative to the folder. The sandbox's own Node is in no such folder. */
export function fileOf(
  program: Exclude<HarnessProgram, { readonly runtime: true }>,
  architecture: Architecture,
): string {
  return 'node' in program ? program.node : program.native[architecture]!
}
