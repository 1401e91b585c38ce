/** Times commands that only read, against Node with an empty program. */
import { join } from 'node:path'
import { median, type Row, TemporaryFolder, timeProcess } from './measure.ts'

const ROUNDS = 25
const ROOT = join(import.meta.dirname, '..')

export async function startupRows(): Promise<Row[]> {
  using folder = new TemporaryFolder()
  timeProcess(process.execPath, [join(ROOT, 'scripts/build.ts')])
  const env = { PATH: process.env.PATH!, HOME: folder.path, CRAIK_HOME: join(folder.path, 'home') }
  const rows: Row[] = []
  for (const args of [
    ['provider', 'list'],
    ['receipts', 'list'],
    ['grant', 'list'],
  ]) {
    const samples = Array.from({ length: ROUNDS }, () => ({
      ours: timeProcess(process.execPath, [join(ROOT, 'dist/src/main.cjs'), ...args], env),
      theirs: timeProcess(process.execPath, ['-e', '0'], env),
    })).slice(3)
    const [ours, theirs] = [median(samples.map((s) => s.ours)), median(samples.map((s) => s.theirs))]
    rows.push({
      what: `\`craik ${args.join(' ')}\`, as installed`,
      against: '`node -e 0`',
      ours: `${ours.toFixed(1)} ms`,
      theirs: `${theirs.toFixed(1)} ms`,
      ratio: median(samples.map((sample) => sample.ours / sample.theirs)),
      bar: { atMost: 2.5 },
      command: 'npm run bench -- startup',
    })
  }
  return rows
}
