/** Checks for the live log that the rows of sandboxes, of their jobs and of their egress rules match Craik's seals. */

import { sealOfRule } from '../../gateway/egress/rule-reader.ts'
import { type LogKeys, loadLogKeys } from '../../receipts/log-keys.ts'
import { fitsSeal, sealKeyId } from '../../receipts/record-seal.ts'
import { MAX_SANDBOXES, parseSandbox } from '../../sandboxes/lifecycle/sandbox-record.ts'
import { sealOfJob } from '../../sandboxes/lifecycle/sandbox-records.ts'
import type { Home } from '../../store/home.ts'
import type { Tables } from '../../store/store.ts'

const PAGE = 1000
const MAX_LISTED = 100
const MAX_RULE_ROWS = 100_000

export interface SandboxRowCheck {
  readonly checked: number
  /** The rows that were changed outside Craik, or cannot be read. */
  readonly damaged: readonly { readonly id: string; readonly detail: string }[]
}

export async function checkSandboxRows(tables: Tables, home: Home): Promise<SandboxRowCheck> {
  const isSealed = sealChecker(home)
  const damaged: SandboxRowCheck['damaged'][number][] = []
  let checked = 0
  const report = (id: string, detail: string) => {
    if (damaged.length < MAX_LISTED) damaged.push({ id, detail })
  }
  for (const { id, document, seal } of await tables.sandboxes.list({}, 2 * MAX_SANDBOXES)) {
    checked++
    if (!isSealed(`sandbox:${id}`, document, seal))
      report(id, `the record of sandbox ${id} was changed outside Craik`)
    else if (!isReadable(document)) report(id, `the record of sandbox ${id} cannot be read`)
  }
  for (let rows = await tables.sandboxJobs.scan(undefined, PAGE); rows.length > 0; ) {
    for (const { sandboxId, jobId, beginId, document, seal, owner } of rows) {
      checked++
      const isOurs = owner !== null && isSealed(sealOfJob(sandboxId, jobId, beginId), document, seal)
      if (!isOurs)
        report(jobId, `the record of job ${jobId} of sandbox ${sandboxId} was changed outside Craik`)
    }
    rows = await tables.sandboxJobs.scan(rows.at(-1), PAGE)
  }
  for (const { id, document, seal } of await tables.egressRules.list({}, MAX_RULE_ROWS)) {
    checked++
    if (!isSealed(sealOfRule(id), document, seal)) report(id, `egress rule ${id} was changed outside Craik`)
  }
  return { checked, damaged }
}

/** Reads each key once. A seal with a key that this home does not have is not a seal of Craik. */
function sealChecker(home: Home): (what: string, document: string, seal: string) => boolean {
  const known = new Map<string, LogKeys | undefined>()
  const keysOf = (kid: string) => {
    if (!known.has(kid)) known.set(kid, tryLoadLogKeys(home, kid))
    return known.get(kid)
  }
  return (what, document, seal) => {
    const kid = sealKeyId(seal)
    const keys = kid === undefined ? undefined : keysOf(kid)
    return keys !== undefined && fitsSeal(keys, what, document, seal)
  }
}

function tryLoadLogKeys(home: Home, kid: string): LogKeys | undefined {
  try {
    return loadLogKeys(home, kid)
  } catch {
    return undefined
  }
}

function isReadable(document: string): boolean {
  try {
    parseSandbox(document)
    return true
  } catch {
    return false
  }
}
