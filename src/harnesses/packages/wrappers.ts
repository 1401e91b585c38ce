/** The programs of `bin`: each a line of shell that becomes the real one, wherever the folder lies. */
import { INSIDE } from '../../sidecar/protocol.ts'
import type { Architecture, HarnessProgram } from './harness-catalogue.ts'

/** Run by its path, as the search of PATH does, so that `$0` leads to the folder. All that is put in was read strictly. */
export function wrapperOf(program: HarnessProgram, architecture: Architecture): string {
  if ('runtime' in program) return `#!/bin/sh\nexec ${INSIDE.runtime}/node "$@"\n`
  const real = `"\${0%/*}/../${fileOf(program, architecture)}"`
  if ('native' in program) return `#!/bin/sh\nexec ${real} "$@"\n`
  const variables = Object.entries(program.programs ?? {}).map(
    ([name, other]) => `export ${name}="\${${name}:-\${0%/*}/${other}}"\n`,
  )
  return `#!/bin/sh\n${variables.join('')}exec ${INSIDE.runtime}/node ${real} "$@"\n`
}

/** What does the work, relative to the folder; the sandbox's own Node is in none. */
export function fileOf(
  program: Exclude<HarnessProgram, { readonly runtime: true }>,
  architecture: Architecture,
): string {
  return 'node' in program ? program.node : program.native[architecture]!
}
