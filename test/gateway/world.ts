/** A network namespace in which public, private and special addresses are on the loopback device. */
import { execFile } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { tempFolder } from '../temp-folder.ts'

/** An address that Craik treats as public. The servers of the tests listen on it. */
export const PUBLIC = '93.184.216.34'

const WORLD = `
set -e
ip link set lo up
for address in ${PUBLIC}/32 169.254.169.254/32 10.0.0.1/32; do ip addr add $address dev lo; done
ip addr add fd00:ec2::254/128 dev lo nodad
mount --bind "$1/resolv.conf" /etc/resolv.conf
mount --bind "$1/hosts" /etc/hosts
folder=$1 node=$2 driver=$3
shift 3
exec "$node" --no-warnings "$driver" "$folder" "$@"
`

/**
 * Runs a fixture of this folder in the namespace. The fixture gets its own folder and the remaining arguments. Returns
 * the report that it prints.
 */
export async function inWorld<Report>(fixture: string, ...rest: readonly string[]): Promise<Report> {
  const folder = tempFolder('craik-world-')
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'resolv.conf'), 'nameserver 127.0.0.1\noptions timeout:1 attempts:1\n')
  writeFileSync(join(folder, 'hosts'), '127.0.0.1 localhost\n')
  const driver = join(import.meta.dirname, fixture)
  const args = ['--net', '--mount', 'sh', '-c', WORLD, 'world', folder, process.execPath, driver, ...rest]
  const { stdout } = await promisify(execFile)('unshare', args, { maxBuffer: 64 * 1024 * 1024 })
  return JSON.parse(stdout) as Report
}
