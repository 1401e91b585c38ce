/** The option of commands that create a sandbox: how programs in the sandbox get the logins of this host. */
import { Option } from 'commander'

export function credentialsOption(): Option {
  return new Option(
    '--credentials <kind>',
    'how programs get your logins: broker (placeholders; the gateway adds the real ones), forward (copies of the real credentials) or none (default: broker)',
  ).choices(['broker', 'forward', 'none'])
}
