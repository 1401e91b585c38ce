/**
 * A process that reserves model calls in one home.
 *
 * - `node reserver.ts <home> <grant> race <count>` prints `ready`, waits for a line, makes that many reservations in
 * four lanes, settles the calls in different ways and prints every receipt.
 * - `node reserver.ts <home> <grant> hold` prints the hold of one call, and waits until it is killed.
 */
import { admitInput, measuredUsage, nanoUsdCall } from '../../src/providers/ledger/ledger.fixture.ts'
import { admitCall, settleCall } from '../../src/providers/ledger/tokens.ts'
import { openLog } from './log.ts'

const [home, grant, mode, count] = process.argv.slice(2) as [string, string, 'race' | 'hold', string]
const LANES = 4

const say = (line: string) => process.stdout.write(`${line}\n`)

if (mode === 'race') {
  say('ready')
  await new Promise((resolve) => process.stdin.once('data', resolve))
  process.stdin.destroy()
  await using opened = await openLog(home)
  const { store, log } = opened
  const attempt = async (n: number): Promise<void> => {
    const wanted = 100 + ((n * 7919 + process.pid) % 200)
    const admitted = await store.write(
      admitCall,
      admitInput(nanoUsdCall(wanted), log.owner, grant, 'agent_1'),
    )
    if (admitted.effect === 'deny') {
      if (admitted.by === 'policy') throw new Error('policy denied')
      say(`denied ${admitted.receipt!.id}`)
      return
    }
    say(`reserved ${admitted.budgetReceipt.id}`)
    const { hold, ref, begin } = admitted
    const { budgetReceipt } = await store.write(settleCall, {
      holdId: hold.id,
      open: { ref, begin },
      end: { status: 'passed' },
      result: n % 5 === 0 ? { kind: 'nothing' } : { kind: 'spent', usage: usageOf(n, wanted) },
    })
    say(`settled ${budgetReceipt.id}`)
  }
  const usageOf = (n: number, wanted: number) =>
    n % 7 === 0 ? ({ source: 'absent' } as const) : measuredUsage(50, n % 3 === 0 ? wanted : wanted >> 1)
  const lane = async (first: number) => {
    for (let n = first; n < Number(count); n += LANES) await attempt(n)
  }
  await Promise.all(Array.from({ length: LANES }, (_, first) => lane(first)))
} else if (mode === 'hold') {
  const { store, log } = await openLog(home)
  const admitted = await store.write(admitCall, admitInput(nanoUsdCall(500), log.owner, grant, 'agent_1'))
  say(admitted.effect === 'allow' ? `held ${admitted.hold.id}` : 'denied')
  setInterval(() => {}, 1000)
}
