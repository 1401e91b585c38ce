/** Runs in each worker with container tests: waits until the image of the sandboxes is built. */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { NO_ENGINE } from './engine-here.ts'

const POLL_MS = 100

const isWorker = process.env.VITEST_POOL_ID !== undefined
if (isWorker && process.env[NO_ENGINE] === undefined) await imageIsReady()

/** Called in the main process: reports that the image is built, or why it could not be built. */
export function reportImage(failure: string): void {
  const temporary = `${reportFile()}.new`
  writeFileSync(temporary, failure)
  renameSync(temporary, reportFile())
}

export async function imageIsReady(): Promise<void> {
  while (!existsSync(reportFile())) await sleep(POLL_MS)
  const failure = readFileSync(reportFile(), 'utf8')
  if (failure !== '') throw new Error(`the image for the tests could not be built: ${failure}`)
}

function reportFile(): string {
  return join(process.env.CRAIK_TEST_RUN_FOLDER!, 'image')
}
