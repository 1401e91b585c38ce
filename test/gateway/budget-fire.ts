/** Budgets under load: several sandboxes open more streams at once than the budget allows. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { LiveSandbox } from '../sandbox-home.ts'
import type { Reply } from './ask.fixture.ts'
import { type LoginScene, NODE_INSIDE } from './login-scene.ts'
import { ANSWER } from './providers.ts'

const BOXES = 4
const STREAMS_EACH = 16
export const STREAMS = BOXES * STREAMS_EACH
export const AFFORDED = STREAMS / 2
const QUESTION = { form: 'anthropic_key', stream: true, model: 'claude-sonnet-4-5' } as const
const PATIENCE_MS = 60_000
const POLL_MS = 100

export type Unit = 'tokens' | 'nano_usd'

interface Amounts {
  readonly limit: number
  readonly spent: number
  readonly held: number
}

export interface FireReport {
  /** The amount that is held for one call, which is its maximum, and the real cost of the call. */
  readonly heldByOne: number
  readonly spentByOne: number
  readonly limit: number
  /** The budget before the first answer and after the last one. */
  readonly height: Amounts
  readonly after: Amounts
  /** Calls that the provider received before it answered the first, and in total. */
  readonly arrivedAtHeight: number
  readonly arrived: number
  readonly answered: number
  /** The number of calls that the budget refused. */
  readonly refused: number
  readonly leaks: readonly string[]
  /** The differences that `receipts verify --replay` reports. */
  readonly differ: readonly unknown[]
  /** Computed from the log alone: the most that was ever spent, and whether it exceeded the limit. */
  readonly peak: number
  readonly exceeded: unknown
}

/** The scene must have a key for Anthropic's provider. */
export async function overloadBudget(scene: LoginScene, unit: Unit): Promise<FireReport> {
  const { home, providers } = scene
  const boxes: LiveSandbox[] = []
  for (let at = 0; at < BOXES; at++) boxes.push(await scene.create())
  const limitTo = (amount: number) => home.json(['budget', 'set', '--total', ...limitOptions(unit, amount)])
  const budget = async (): Promise<Amounts> => {
    const [row] = await home.json<Record<string, number>[]>(['budget', 'show', '--format', 'json'])
    return { limit: row![`limit_${unit}`]!, spent: row![`spent_${unit}`]!, held: row![`held_${unit}`]! }
  }
  const findReceipts = async (text: string) =>
    (await scene.receipts()).split('\n').filter((line) => line.includes(text))

  await limitTo(1_000_000_000)
  const [first] = await scene.ask(boxes[0]!, [QUESTION])
  if (first?.status !== 200) throw new Error(`the first call: ${first?.status} ${first?.text}`)
  const heldByOne: number = JSON.parse((await findReceipts('"operation":"reserve"'))[0]!).body.metadata[unit]
  const { spent: spentByOne } = await budget()
  const limit = spentByOne + AFFORDED * heldByOne
  await limitTo(limit)
  providers.take()

  const { promise: gate, resolve: open } = Promise.withResolvers<void>()
  providers.gate = gate
  let arrived = 0
  providers.onCall = () => void arrived++
  const asking = boxes.map(async (box) => {
    const question = JSON.stringify(QUESTION)
    const ran = await box.exec([
      NODE_INSIDE,
      '--no-warnings',
      'ask.ts',
      '--at-once',
      String(STREAMS_EACH),
      question,
    ])
    if (ran.code !== 0) throw new Error(ran.stdout + ran.stderr)
    return JSON.parse(ran.stdout) as Reply[]
  })
  let height: Amounts
  let arrivedAtHeight: number
  try {
    await waitUntil(
      async () => (await findReceipts('"rule":"budget.exhausted"')).length >= STREAMS - AFFORDED,
    )
    height = await budget()
    arrivedAtHeight = arrived
  } finally {
    open()
  }
  const replies = (await Promise.all(asking)).flat()
  await waitUntil(async () => (await budget()).held === 0)
  const leaks = await scene.hunt()
  for (const box of boxes) await box.delete()
  const verified = await home.json<Verified>(['receipts', 'verify', '--replay', '--format', 'json'])
  return {
    heldByOne,
    spentByOne,
    limit,
    height,
    arrivedAtHeight,
    leaks,
    after: await budget(),
    arrived: providers.take().length,
    answered: replies.filter(({ status, text }) => status === 200 && text.includes(ANSWER)).length,
    refused: replies.filter(({ status }) => status === 402).length,
    differ: [...verified.boundaries.differ, ...verified.replay.differ],
    peak: Number(verified.replay.budgets[0]?.[`peak_${unit}`]),
    exceeded: verified.replay.budgets[0]?.exceeded,
  }
}

interface Verified {
  readonly boundaries: { readonly differ: readonly unknown[] }
  readonly replay: {
    readonly differ: readonly unknown[]
    readonly budgets: readonly Readonly<Record<string, unknown>>[]
  }
}

function limitOptions(unit: Unit, amount: number): string[] {
  const [dollars, nanos] = [Math.floor(amount / 1e9), String(amount % 1e9).padStart(9, '0')]
  const limit = unit === 'tokens' ? ['--tokens', String(amount)] : ['--limit', `${dollars}.${nanos}usd`]
  return [...limit, '--format', 'json']
}

async function waitUntil(holds: () => Promise<boolean>): Promise<void> {
  const until = AbortSignal.timeout(PATIENCE_MS)
  while (!(await holds())) await sleep(POLL_MS, undefined, { signal: until })
}
