/** Names that cannot be set for a whole sandbox: should they ever reach the sidecar, they would steer it. */
import { CraikError } from '../../../errors.ts'

/** But for the name that a prompt shows, no name of Craik's own. */
const STEERING =
  /^(?:CRAIK_(?!SANDBOX_NAME$)|LD_|NODE_(?!ENV$)|UV_|TINI_|MALLOC_|GLIBC_TUNABLES$|OPENSSL_CONF$|SSLKEYLOGFILE$)/

export function refuseSteering(environment: Readonly<Record<string, string>>): void {
  const name = Object.keys(environment).find((one) => STEERING.test(one))
  if (name === undefined) return
  throw new CraikError('usage', `the environment of a sandbox cannot set ${name}`, {
    hint: `set it for one command:  craik sandbox exec --env ${name}=… ID -- COMMAND`,
  })
}
