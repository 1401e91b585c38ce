/** Finds the setting that forbids namespaces for ordinary users on this host, and the command that allows them. */
import { readFileSync } from 'node:fs'

const SETTINGS = [
  { path: '/proc/sys/kernel/apparmor_restrict_unprivileged_userns', closed: '1', open: '0' },
  { path: '/proc/sys/kernel/unprivileged_userns_clone', closed: '0', open: '1' },
  { path: '/proc/sys/user/max_user_namespaces', closed: '0', open: '15000' },
]

/** Returns the command for the first setting that forbids namespaces. */
export function readUsernsFix(): string {
  const closed = SETTINGS.find(({ path, closed }) => read(path) === closed)
  if (closed === undefined) return 'run where user namespaces are allowed (a container may forbid them)'
  const name = closed.path.slice('/proc/sys/'.length).replaceAll('/', '.')
  return `sysctl -w ${name}=${closed.open}`
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return undefined
  }
}
