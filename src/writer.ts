/** The composition root of the writer thread: its procedures and its store. */
import { parentPort, workerData } from 'node:worker_threads'
import { egressProcedures } from './gateway/egress/egress-procedures.ts'
import { systemClock } from './lib/clock.ts'
import { policyProcedures } from './policy/policy-procedures.ts'
import { breakerProcedures } from './providers/breaker/breaker-procedures.ts'
import { ledgerProcedures } from './providers/ledger/ledger-procedures.ts'
import { sweepDead } from './providers/ledger/sweep.ts'
import { providerSettingProcedures } from './providers/settings-procedures.ts'
import { receiptProcedures } from './receipts/receipt-procedures.ts'
import { Sealer } from './receipts/sealer.ts'
import { agentProcedures } from './run/agents/agent-procedures.ts'
import { demoProcedures } from './run/demo/removal.ts'
import { promptProcedures } from './run/prompts/prompt-procedures.ts'
import { lifecycleProcedures } from './sandboxes/lifecycle/lifecycle-procedures.ts'
import { sandboxProcedures } from './sandboxes/sandbox-procedures.ts'
import { secretProcedures } from './secrets/secret-procedures.ts'
import type { Home } from './store/home.ts'
import { openDatabase, translateError } from './store/sqlite/database.ts'
import { serializeError, serveWriter } from './store/sqlite/writer-thread.ts'
import type { Tables } from './store/store.ts'

const { home } = workerData as { readonly home: Home }
const port = parentPort!
void start()

async function start(): Promise<void> {
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
        ...sandboxProcedures(sealer, systemClock),
        ...lifecycleProcedures(sealer, systemClock),
        ...secretProcedures(sealer, systemClock),
        ...providerSettingProcedures(sealer, systemClock),
        ...agentProcedures(sealer, systemClock, home),
        ...demoProcedures(sealer, systemClock, home),
        ...promptProcedures(sealer, systemClock, home),
        ...breakerProcedures(sealer, systemClock),
        ...ledgerProcedures(sealer, systemClock),
        ...egressProcedures(sealer, systemClock),
        // Cleans up after processes that died: receipts without an end, and holds that no process will settle.
        'writer.start': async (tables: Tables) => {
          await sealer.closeDead(tables)
          await sweepDead(tables, sealer, systemClock)
        },
      },
      {
        atStart: 'writer.start',
        atClose: 'receipts.close',
        afterWrite: { procedure: 'receipts.checkpoint', delayMs: 1_000 },
      },
    )
  } catch (error) {
    port.postMessage({ failed: serializeError(translateError(error, home.state)) })
  }
}
