/** The option of commands that can use a grant that the user names. */
import { Option } from 'commander'

export function grantOption(): Option {
  return new Option(
    '--grant <id>',
    'use this grant (craik grant), if policy requires one (default: any usable one)',
  )
}
