/** The composition root of the writer thread: which procedures it knows, over which store. */
import { parentPort, workerData } from 'node:worker_threads'
import { systemClock } from './lib/clock.ts'
import { policyProcedures } from './policy/procedures.ts'
import { receiptProcedures } from './receipts/procedures.ts'
import { Sealer } from './receipts/sealer.ts'
import { secretProcedures } from './secrets/procedures.ts'
import type { Home } from './store/home.ts'
import { openDatabase, translateError } from './store/sqlite/database.ts'
import { plain, serveWriter } from './store/sqlite/writer-thread.ts'

const { home } = workerData as { readonly home: Home }
const port = parentPort!
try {
  const database = await openDatabase(home)
  const sealer = new Sealer(home, systemClock)
  await serveWriter(
    port,
    database,
    home.state,
    {
      ...receiptProcedures(sealer),
      ...policyProcedures(sealer, systemClock),
      ...secretProcedures(sealer, systemClock),
    },
    {
      atStart: 'receipts.close_dead',
      atClose: 'receipts.close',
      afterWrite: { procedure: 'receipts.checkpoint', delayMs: 1_000 },
    },
  )
} catch (error) {
  port.postMessage({ failed: plain(translateError(error, home.state)) })
}
