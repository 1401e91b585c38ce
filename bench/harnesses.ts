/**
 * Times agents from their start to the first word of an answer: in a sandbox with the login on the host, and directly
 * on the host.
 */
import { HARNESSES } from '../src/harnesses/all.ts'
import { PACKAGED_HARNESS_NAMES } from '../src/harnesses/packages/harness-catalogue.ts'
import { readyHarnesses } from '../test/harness-image.ts'
import { FaultyAnswers } from '../test/harnesses/agent-providers.ts'
import { bareAgent, startPlainModels } from './harnesses-bare.ts'
import { openPrompted } from './harnesses-craik.ts'
import { type Row, type Spread, spread, TemporaryFolder } from './measure.ts'

const ROUNDS = { warm: 1, counted: 5 }

export async function harnessRows(): Promise<Row[]> {
  const installed = await readyHarnesses()
  const { answer } = new FaultyAnswers()
  using folder = new TemporaryFolder()
  await using models = await startPlainModels(answer)
  await using prompted = await openPrompted(folder.path, answer)
  const rows: Row[] = []
  for (const name of PACKAGED_HARNESS_NAMES) {
    process.stderr.write(`    ${name} …\n`)
    const { folder: program } = installed.find((each) => each.name === name)!
    const bare = bareAgent(HARNESSES[name], { name, program, models: models.url, folder: folder.path })
    const { ours, theirs } = await inTurns({ ours: () => prompted.firstWordMs(name), theirs: bare })
    rows.push({
      what: `\`craik prompt --harness ${name} --sandbox ID\`: its start to the first word of the answer`,
      against: 'the same agent on the machine itself, over the same protocol',
      ours: seconds(ours),
      theirs: seconds(theirs),
      ratio: ours.p50 / theirs.p50,
      bar: undefined,
      command: 'npm run bench -- harnesses',
    })
  }
  return rows
}

/** Each work returns its own duration, because the time after the first word does not count. */
async function inTurns<Name extends string>(
  works: Readonly<Record<Name, () => Promise<number>>>,
): Promise<Record<Name, Spread>> {
  const entries = Object.entries(works) as [Name, () => Promise<number>][]
  const times = new Map(entries.map(([name]) => [name, [] as number[]]))
  for (let round = -ROUNDS.warm; round < ROUNDS.counted; round++)
    for (const [name, work] of entries) {
      const tookMs = await work()
      if (round >= 0) times.get(name)!.push(tookMs)
    }
  return Object.fromEntries([...times].map(([name, values]) => [name, spread(values)])) as Record<
    Name,
    Spread
  >
}

function seconds({ p50, p99 }: Spread): string {
  return `${(p50 / 1000).toFixed(2)} s, at most ${(p99 / 1000).toFixed(2)} s`
}
