/** Refuses variables that sandboxes must not see. It checks only their names, before Craik reads or starts anything. */
import { CraikError } from '../errors.ts'
import { REFUSED_VARIABLES } from '../sidecar/protocol.ts'

/** `command` is the typed command. The hint repeats it without the variables. */
export function refuseHostVariables(
  environment: NodeJS.ProcessEnv,
  pattern: RegExp | undefined,
  command: string,
): void {
  const found = Object.keys(environment)
    .filter(
      (name) =>
        environment[name] !== undefined &&
        (REFUSED_VARIABLES.some((refused) => refused === name) || pattern?.test(name) === true),
    )
    .sort()
  if (found.length === 0) return
  throw new CraikError(
    'refused_variable',
    `the environment contains ${found.join(', ')}, which sandboxes must not see`,
    {
      hint: `unset ${found.length === 1 ? 'it' : 'them'} for this command:  env ${found.map((name) => `-u ${name}`).join(' ')} ${command}`,
      details: { variables: found },
    },
  )
}
