/**
 * Writes the files of /etc that are the same for every container of a sandbox: the name of its user, and nothing about
 * the host.
 */
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { INSIDE } from '../../../sidecar/protocol.ts'
import type { HostUser } from '../../backend.ts'

const USER_INSIDE = 'agent'

/** Writes the files to the sandbox's folder. Returns where they are and where to mount them. */
export function writeEtc(folder: string, { uid, gid }: HostUser): { source: string; target: string }[] {
  const etc = join(folder, 'etc')
  mkdirSync(etc, { recursive: true, mode: 0o755 })
  chmodSync(etc, 0o755)
  return Object.entries(contents(uid, gid)).map(([name, content]) => {
    const source = join(etc, name)
    writeFileSync(source, content)
    chmodSync(source, 0o644)
    return { source, target: `/etc/${name}` }
  })
}

function contents(uid: number, gid: number): Record<string, string> {
  return {
    passwd: [
      'root:x:0:0:root:/root:/usr/sbin/nologin',
      `${USER_INSIDE}:x:${uid}:${gid}::${INSIDE.home}:/bin/bash`,
      'nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n',
    ].join('\n'),
    group: ['root:x:0:', `${USER_INSIDE}:x:${gid}:`, 'nogroup:x:65534:\n'].join('\n'),
    // Engines write the host's resolvers here, which the sandbox cannot reach.
    'resolv.conf': '',
    hosts: '127.0.0.1 localhost\n::1 localhost\n',
  }
}
