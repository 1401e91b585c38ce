/** Waits for the supervisor's signature, so that the evidence of a command that just ended is complete. */
import { existsSync } from 'node:fs'
import { delay } from '../../lib/delay.ts'
import type { Store, Tables } from '../../store/store.ts'
import type { CliContext } from '../context.ts'

const PATIENCE_MS = 3_000
const POLL_MS = 50

/**
 * A running supervisor signs its newest receipts about a second after it wrote them. After its start it signs those
 * that another supervisor left. A command that reads the log right after another one would find receipts that no
 * checkpoint covers yet. So this waits for the checkpoint of the newest receipt, or of the one that `find` returns, a
 * few seconds at most.
 */
export async function waitUntilSigned(
  store: Store,
  { home, signal }: CliContext,
  find: (tables: Tables) => Promise<{ readonly seq: number } | undefined> = ({ receipts }) => receipts.last(),
): Promise<void> {
  const { runFolder } = await import('../../supervisor/run-folder.ts')
  if (!existsSync(runFolder(home).socket)) return
  const isDue = () =>
    store.read(async (tables) => {
      const receipt = await find(tables)
      return receipt !== undefined && receipt.seq >= ((await tables.tree.lastCheckpoint())?.size ?? 0)
    })
  for (let waitedMs = 0; waitedMs < PATIENCE_MS && (await isDue()); waitedMs += POLL_MS)
    await delay(POLL_MS, signal)
}
