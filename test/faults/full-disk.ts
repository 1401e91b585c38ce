/**
 * What happens on a full disk, played on a small disk of its own. It has to run in a mount namespace:
 *
 *   unshare --mount node full-disk.ts <scenario> <folder>     prints what happened as one line of JSON
 */
import { execFileSync } from 'node:child_process'
import { closeSync, existsSync, ftruncateSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { builtMain, NODE, type Ran, run } from '../craik.ts'
import { openLog, point, receiptsOf } from './log.ts'

const [scenario, folder] = process.argv.slice(2) as [keyof typeof SCENARIOS, string]
const disk = join(folder, 'disk')
const home = join(disk, 'home')
const ballast = join(disk, 'ballast')

interface Attempt extends Ran {
  /** Whether the command ran: it touches a file on another disk. */
  readonly acted: boolean
}

const SCENARIOS = {
  /** A disk that has no room for even the home. */
  async fresh() {
    fill()
    const refused = await act('refused')
    empty()
    return { refused, works: await act('works'), verified: await craik('receipts', 'verify') }
  },

  /** A log that works, then a full disk, then room again. */
  async known() {
    await act('before')
    const before = receiptsOf(home)
    fill()
    const refused = await act('refused')
    const listed = await craik('receipts', 'list')
    empty()
    const verified = [await craik('receipts', 'verify')]
    const after = receiptsOf(home)
    const works = await act('works')
    verified.push(await craik('receipts', 'verify'))
    return { before, refused, listed, after, works, verified }
  },

  /** A little room: enough to begin and not to end, or not even that. */
  async edges() {
    await act('before')
    const attempts: (Attempt & { readonly kilobytes: number })[] = []
    for (const kilobytes of [0, 16, 32, 40, 48, 52, 56, 60, 64, 68, 72, 80, 96, 192]) {
      fill(kilobytes)
      attempts.push({ kilobytes, ...(await act(`with-${kilobytes}`)) })
      empty()
    }
    const works = await act('works')
    return { attempts, works, receipts: receiptsOf(home), verified: await craik('receipts', 'verify') }
  },

  /** The disk fills up while many appends are in flight; later the same process goes on. */
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
// The disk goes away with the namespace, which ends with this process.
writeSync(1, `${JSON.stringify(await SCENARIOS[scenario]())}\n`)

function craik(...args: readonly string[]): Promise<Ran> {
  return run(NODE, [builtMain(), ...args], {
    cwd: folder,
    env: { PATH: process.env.PATH!, HOME: folder, CRAIK_HOME: home },
  })
}

async function act(name: string): Promise<Attempt> {
  const marker = join(folder, name)
  const ran = await craik('shell', `touch ${marker}`)
  return { ...ran, acted: existsSync(marker) }
}

/** Fills the disk to its last byte, then gives back so many kilobytes. */
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
