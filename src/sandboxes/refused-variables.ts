/** Variables that no sandbox and no job in one takes, whatever their value. */
import { CraikError } from '../errors.ts'
import { REFUSED_VARIABLES } from '../sidecar/protocol.ts'

/** `what` begins the message; the value is in none. */
export function refuseVariables(environment: Readonly<Record<string, string>>, what: string): void {
  const name = REFUSED_VARIABLES.find((one) => Object.hasOwn(environment, one))
  if (name === undefined) return
  throw new CraikError('refused_variable', `${what} sets ${name}, which no sandbox takes`, {
    hint: 'leave it out; the GitHub login of this machine serves inside without it:  craik accounts',
  })
}
