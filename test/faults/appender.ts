/**
 * A process that appends to one home and prints the id of each receipt only after the log has acknowledged it.
 *
 * - `node appender.ts <home> mixed <lanes>` appends until it is killed.
 * - `node appender.ts <home> rotate` rotates the keys between receipts, until it is killed.
 * - `node appender.ts <home> single <count>` prints `ready`, waits for a line, appends one receipt after the other and
 * closes the log.
 */
import { writeSync } from 'node:fs'
import { rotateKey } from '../../src/receipts/receipt-log.ts'
import { openLog, point } from './log.ts'

const [home, mode, number] = process.argv.slice(2) as [string, 'mixed' | 'rotate' | 'single', string]

/**
 * Writes to the pipe directly, so that the test receives every acknowledgement, whatever happens to this process next.
 */
function say(line: string): void {
  for (;;) {
    try {
      writeSync(1, `${line}\n`)
      return
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
    }
  }
}

if (mode === 'single') {
  say('ready')
  await new Promise((resolve) => process.stdin.once('data', resolve))
  process.stdin.destroy()
  await using opened = await openLog(home)
  for (let n = 0; n < Number(number); n++) say((await opened.log.append(point(n))).id)
} else if (mode === 'rotate') {
  const { store, log } = await openLog(home)
  for (let n = 0; ; n++) {
    const calls = [log.append(point(n)), store.write(rotateKey, 'agent:test'), log.append(point(n))]
    for (const ref of await Promise.all(calls)) say(ref.id)
  }
} else {
  const { log } = await openLog(home)
  const lane = async (first: number): Promise<never> => {
    for (let n = first; ; n++) {
      if (n % 3 !== 0) say((await log.append(point(n))).id)
      else {
        const { status: _, ...begin } = point(n)
        const open = await log.begin(begin)
        say(open.id)
        // Half of the actions last a random time, so that a kill leaves some that began and did not end.
        if (n % 2 === 0) await new Promise((resolve) => setTimeout(resolve, Math.random() * 20))
        say((await open.end({ status: n % 4 === 0 ? 'passed' : 'failed' })).id)
      }
    }
  }
  await Promise.all(Array.from({ length: Number(number) }, (_, i) => lane(i)))
}
