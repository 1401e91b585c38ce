/** Host users for sandboxes. Nothing else on the host runs as a sandbox's user. */
import { randomInt } from 'node:crypto'
import type { HostUser } from '../backend.ts'

/**
 * No other program allocates users in this range. It is above systemd's containers (524,288 to 1,879,048,191),
 * `/etc/subuid` (by default at most 600,100,000) and the directories of SSSD (by default at most 2,000,200,000). It is
 * below systemd's range for foreign images (from 2,147,352,576).
 */
const FIRST_UID = 2_100_000_000
const UIDS = 65_536

/** Includes records that were changed outside Craik, so that their users are not allocated again. */
export function usedUids(rows: readonly { readonly document: string }[]): ReadonlySet<unknown> {
  return new Set(rows.map(({ document }) => uidIn(document)))
}

/** Starts at a random user, because another Craik home on this host may allocate from the same range independently. */
export function freeUser(used: ReadonlySet<unknown>): HostUser {
  let uid = FIRST_UID + randomInt(UIDS)
  while (used.has(uid)) uid = FIRST_UID + ((uid + 1 - FIRST_UID) % UIDS)
  return { uid, gid: uid }
}

function uidIn(document: string): unknown {
  return (JSON.parse(document) as { readonly allocated_uid?: unknown } | null)?.allocated_uid
}
