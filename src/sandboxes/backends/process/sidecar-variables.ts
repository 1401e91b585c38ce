/**
 * Refuses variables that cannot be set for a whole sandbox, because they would control the sidecar if they reached it.
 */
import { CraikError } from '../../../errors.ts'

/** Covers all of Craik's own names, except the sandbox name that a shell prompt shows. */
const STEERING =
  /^(?:CRAIK_(?!SANDBOX_NAME$)|LD_|NODE_(?!ENV$)|UV_|TINI_|MALLOC_|GLIBC_TUNABLES$|OPENSSL_CONF$|SSLKEYLOGFILE$)/

export function refuseSidecarVariables(environment: Readonly<Record<string, string>>): void {
  const name = Object.keys(environment).find((one) => STEERING.test(one))
  if (name === undefined) return
  throw new CraikError('usage', `the environment of a sandbox cannot set ${name}`, {
    hint: `set the variable for one command:  craik sandbox exec --env ${name}=… ID -- COMMAND`,
  })
}
