/** Runs the sandboxes of a home until it is killed or receives `leave`. Each line of its input is an order. */
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { systemClock } from '../../src/lib/clock.ts'
import type { JobId, SandboxId } from '../../src/lib/ids.ts'
import { createReceiptLog } from '../../src/receipts/receipt-log.ts'
import type { Isolation } from '../../src/sandboxes/backend.ts'
import { processBackend } from '../../src/sandboxes/backends/process/backend.ts'
import {
  allowCreate,
  caller,
  eventually,
  exec,
  readOutput,
  SANDBOX_REQUEST,
} from '../../src/sandboxes/manager/manager.fixture.ts'
import { createSandboxManager } from '../../src/sandboxes/manager.ts'
import { homeAt } from '../../src/store/home.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'

type Order =
  | { readonly do: 'create'; readonly isolation: Isolation }
  | { readonly do: 'start' | 'run'; readonly id: SandboxId; readonly job: JobId; readonly argv: string[] }
  | { readonly do: 'upload'; readonly id: SandboxId; readonly job: JobId; readonly text: string }
  | { readonly do: 'list' }
  | { readonly do: 'delete'; readonly id: SandboxId }
  | { readonly do: 'wait'; readonly id: SandboxId }
  | { readonly do: 'leave' }

const home = homeAt(process.argv[2])
const store = await openSqliteStore(home, new URL('../../src/writer.ts', import.meta.url))
const manager = createSandboxManager({
  store,
  log: createReceiptLog(store, systemClock),
  clock: systemClock,
  home,
  backends: { process: processBackend({ craikHome: home.root, environment: process.env }) },
  logger: (level, message) => level === 'info' || process.stderr.write(`${message}\n`),
})
const say = (what: unknown) => process.stdout.write(`${JSON.stringify(what)}\n`)
await manager.recover()
say({ ready: true })

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line) as Order
  say({ begun: order.do })
  try {
    say({ did: await execute(order) })
  } catch (error) {
    say({ failed: (error as { code?: string }).code ?? String(error), message: String(error) })
  }
  if (order.do === 'leave') break
}
await manager.close()
await store.close()
process.exit(0)

async function execute(order: Order): Promise<unknown> {
  switch (order.do) {
    case 'create':
      await allowCreate(store)
      return manager.create(caller(), { ...SANDBOX_REQUEST, isolation: order.isolation })
    case 'start':
    case 'run': {
      const request = { spec: exec(...order.argv) }
      const { output, receiptId, created } = await manager.jobs.start(caller(), order.id, order.job, request)
      if (order.do === 'run') return { receiptId, created, ...(await readOutput(output)) }
      output.on('error', () => {})
      output.destroy()
      return { receiptId, created }
    }
    case 'upload': {
      const bytes = Buffer.from(order.text)
      const upload = { upload: order.job, path: 'uploaded', bytes: bytes.length, mode: 0o600 }
      const there = await manager.files.getUpload(caller(), order.id, order.job)
      const from = there?.offset ?? 0
      return manager.files.write(caller(), order.id, upload, from, Readable.from([bytes.subarray(from)]))
    }
    case 'list':
      return manager.list()
    case 'delete':
      return manager.delete(caller(), order.id)
    case 'wait':
      return eventually(async () => {
        const { runningJobs } = await manager.get(order.id)
        return runningJobs === 0 ? true : undefined
      })
    case 'leave':
      return true
  }
}
