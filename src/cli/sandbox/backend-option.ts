/** The option of commands that create a sandbox: which backend runs it. */
import { Option } from 'commander'

export function backendOption(what: string, defaultBackend = 'process'): Option {
  return new Option(
    '--backend <kind>',
    `${what}: process (bubblewrap) or docker (a container of Docker or Podman) (default: ${defaultBackend})`,
  ).choices(['process', 'docker'])
}
