/**
 * Scenarios on a full disk, which is a small disk of this process. The script needs a mount namespace:
 *
 * - `unshare --mount node full-disk.ts <scenario> <folder>` prints the results as one line of JSON.
 */
import { execFileSync } from 'node:child_process'
import { closeSync, existsSync, ftruncateSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { builtMain, type CommandResult, NODE, run } from '../craik.ts'
import { openLog, point, receiptsOf } from './log.ts'

const [scenario, folder] = process.argv.slice(2) as [keyof typeof SCENARIOS, string]
const disk = join(folder, 'disk')
const home = join(disk, 'home')
const ballast = join(disk, 'ballast')

interface Attempt extends CommandResult {
  /** Whether the command ran: it touches a file on another disk. */
  readonly acted: boolean
}

const SCENARIOS = {
  /** The disk has no space even for the home. */
  async fresh() {
    fill()
    const refused = await runAndCheck('refused')
    empty()
    return { refused, works: await runAndCheck('works'), verified: await craik('receipts', 'verify') }
  },

  /** A working log, then a full disk, then space again. */
  async known() {
    await runAndCheck('before')
    const before = receiptsOf(home)
    fill()
    const refused = await runAndCheck('refused')
    const listed = await craik('receipts', 'list')
    empty()
    const verified = [await craik('receipts', 'verify')]
    const after = receiptsOf(home)
    const works = await runAndCheck('works')
    verified.push(await craik('receipts', 'verify'))
    return { before, refused, listed, after, works, verified }
  },

  /** A little space: enough to begin and not to end, or not enough to begin. */
  async edges() {
    await runAndCheck('before')
    const attempts: (Attempt & { readonly kilobytes: number })[] = []
    for (const kilobytes of [0, 16, 32, 40, 48, 52, 56, 60, 64, 68, 72, 80, 96, 192]) {
      fill(kilobytes)
      attempts.push({ kilobytes, ...(await runAndCheck(`with-${kilobytes}`)) })
      empty()
    }
    const works = await runAndCheck('works')
    return { attempts, works, receipts: receiptsOf(home), verified: await craik('receipts', 'verify') }
  },

  /** The disk becomes full during many appends. Later the same process continues. */
  async flood() {
    const acknowledged: string[] = []
    const refusals: Record<string, number> = {}
    const opened = await openLog(home)
    const lane = async (first: number) => {
      for (let n = first; ; n++) {
        try {
          acknowledged.push((await opened.log.append(point(n))).id)
        } catch (error) {
          const code = (error as { code?: string }).code ?? String(error)
          refusals[code] = (refusals[code] ?? 0) + 1
          return
        }
      }
    }
    const lanes = Array.from({ length: 64 }, (_, n) => lane(n * 10_000))
    while (acknowledged.length < 300) await new Promise((resolve) => setTimeout(resolve, 5))
    fill()
    await Promise.all(lanes)
    const beforeRoom = acknowledged.length
    empty()
    for (let n = 0; n < 10; n++) acknowledged.push((await opened.log.append(point(n))).id)
    await opened.store.close()
    const receipts = receiptsOf(home)
    return { acknowledged, beforeRoom, refusals, receipts, verified: await craik('receipts', 'verify') }
  },
}

mkdirSync(disk)
execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=6m,mode=0700', 'craik-test', disk])
// The disk disappears with the namespace, which ends with this process.
writeSync(1, `${JSON.stringify(await SCENARIOS[scenario]())}\n`)

function craik(...args: readonly string[]): Promise<CommandResult> {
  return run(NODE, [builtMain(), ...args], {
    cwd: folder,
    env: { PATH: process.env.PATH!, HOME: folder, CRAIK_HOME: home },
  })
}

async function runAndCheck(name: string): Promise<Attempt> {
  const marker = join(folder, name)
  const ran = await craik('shell', `touch ${marker}`)
  return { ...ran, acted: existsSync(marker) }
}

/** Fills the disk to its last byte, then frees the given number of kilobytes. */
function fill(kilobytes = 0): void {
  const file = openSync(ballast, 'w')
  let size = 0
  for (let chunk = 65_536; chunk >= 1; ) {
    try {
      size += writeSync(file, Buffer.alloc(chunk), 0, chunk, size)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
      chunk = Math.floor(chunk / 16)
    }
  }
  ftruncateSync(file, size - kilobytes * 1024)
  closeSync(file)
}

function empty(): void {
  rmSync(ballast)
}
