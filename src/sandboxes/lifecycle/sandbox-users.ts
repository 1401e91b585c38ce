/** Users of the host for sandboxes: each has one that nothing else on the machine runs as. */
import { randomInt } from 'node:crypto'
import type { HostUser } from '../backend.ts'

/**
 * A range that nobody else hands out: above systemd's containers (524,288 to 1,879,048,191), `/etc/subuid` (by default at
 * most 600,100,000) and the directories of SSSD (by default at most 2,000,200,000), and below systemd's range for
 * foreign images (from 2,147,352,576).
 */
const FIRST_UID = 2_100_000_000
const UIDS = 65_536

/** Of what was changed outside Craik too: its user is not given to another. */
export function usedUids(rows: readonly { readonly document: string }[]): ReadonlySet<unknown> {
  return new Set(rows.map(({ document }) => uidIn(document)))
}

/** From a random one on: another home of this machine allocates from the same range without knowing of ours. */
export function freeUser(used: ReadonlySet<unknown>): HostUser {
  let uid = FIRST_UID + randomInt(UIDS)
  while (used.has(uid)) uid = FIRST_UID + ((uid + 1 - FIRST_UID) % UIDS)
  return { uid, gid: uid }
}

function uidIn(document: string): unknown {
  return (JSON.parse(document) as { readonly allocated_uid?: unknown } | null)?.allocated_uid
}
