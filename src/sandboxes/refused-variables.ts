/** Variables that no sandbox and no job accepts, whatever their value. */
import { CraikError } from '../errors.ts'
import { REFUSED_VARIABLES } from '../sidecar/protocol.ts'

/** Refuses an environment with such a variable. `what` begins the message, which never contains the value. */
export function refuseVariables(environment: Readonly<Record<string, string>>, what: string): void {
  const name = REFUSED_VARIABLES.find((one) => Object.hasOwn(environment, one))
  if (name === undefined) return
  throw new CraikError('refused_variable', `${what} sets ${name}, which sandboxes must not see`, {
    hint: `leave ${name} out: sandboxes can use this machine’s GitHub login without it:  craik accounts`,
  })
}
