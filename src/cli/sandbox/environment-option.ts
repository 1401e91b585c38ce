/** Parses `--env NAME=VALUE`: variables for programs in the sandbox. */
import { CraikError } from '../../errors.ts'
import { API_LIMITS } from '../../operator/api/api-constants.ts'
import { LIMITS } from '../../sidecar/protocol.ts'
import { quoteText } from './amounts.ts'

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/

/**
 * If a name appears twice, the last one counts. A value never appears in an error, because it may be a secret that was
 * typed by mistake.
 */
export function parseEnvironment(pairs: readonly string[] = []): Record<string, string> {
  const environment: Record<string, string> = Object.create(null)
  let bytes = 0
  for (const pair of pairs) {
    const [, name = '', value] = /^([^=]*)(?:=([\s\S]*))?$/.exec(pair)!
    if (!NAME.test(name))
      throw new CraikError('usage', `--env ${quoteText(name)} is not a valid variable name`, {
        hint: 'write --env NAME=VALUE, with letters, digits and _ in the name',
      })
    if (value === undefined)
      throw new CraikError('usage', `--env ${name} has no value`, {
        hint: `write --env ${name}=VALUE; a sandbox does not inherit this shell’s environment`,
      })
    if (value.includes('\0')) throw new CraikError('usage', `the value of --env ${name} contains a NUL byte`)
    bytes += Buffer.byteLength(pair) + 1
    environment[name] = value
  }
  const names = Object.keys(environment).length
  if (names > API_LIMITS.environmentNames)
    throw new CraikError('too_large', `--env sets ${names.toLocaleString('en')} variables`, {
      hint: `set at most ${API_LIMITS.environmentNames}`,
    })
  if (bytes > LIMITS.envBytes)
    throw new CraikError(
      'too_large',
      `the --env variables have ${bytes.toLocaleString('en')} bytes in total`,
      {
        hint: `use at most ${LIMITS.envBytes.toLocaleString('en')}; copy larger values in a file:  craik sandbox cp`,
      },
    )
  return { ...environment }
}
