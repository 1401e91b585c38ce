/** Collects the facts about each harness from its recipe, this host, the engine and the logins. */
import { CraikError } from '../../errors.ts'
import {
  type HarnessSource,
  PACKAGED_HARNESS_NAMES,
  type PackagedHarnessName,
  readHarness,
} from '../../harnesses/packages/harness-catalogue.ts'
import { harnessStore } from '../../harnesses/packages/harness-store.ts'
import { type FoundHarness, listInstalled } from '../../harnesses/packages/list-installed.ts'
import type { CliContext } from '../context.ts'
import { hostLogins } from '../host-logins.ts'
import { engineOf } from '../image/open-engine.ts'

export interface HarnessRow {
  readonly name: PackagedHarnessName
  /** Undefined if the harness does not exist for this kind of processor. */
  readonly source: HarnessSource | undefined
  readonly installed: FoundHarness | undefined
  /** Installations of other builds of Craik. */
  readonly older: readonly FoundHarness[]
  /** Names of the images that contain it at this version. Undefined if no engine is available. */
  readonly images: readonly string[] | undefined
  /** The accounts of this host that belong to the harness. */
  readonly logins: readonly string[]
}

export async function harnessRows(context: CliContext): Promise<readonly HarnessRow[]> {
  const [installed, images, accounts] = await Promise.all([
    listInstalled({ craikHome: context.home.root, environment: context.environment }),
    imagesByHarness(context),
    accountIds(context),
  ])
  return [...PACKAGED_HARNESS_NAMES].sort().map((name) => {
    const source = sourceOf(name)
    const own = installed.filter((one) => one.name === name)
    const login = source?.settings.login ?? name
    return {
      name,
      source,
      installed: own.find(({ id }) => id === source?.id),
      older: own.filter(({ id }) => id !== source?.id),
      images: images && (images.get(source?.id ?? '') ?? []),
      logins: accounts.filter((id) => id === login || id.startsWith(`${login}/`)),
    }
  })
}

function sourceOf(name: PackagedHarnessName): HarnessSource | undefined {
  try {
    return readHarness(name)
  } catch (error) {
    if (error instanceof CraikError && error.code === 'unavailable') return undefined
    throw error
  }
}

/** Returns undefined if no engine is available. */
async function imagesByHarness(context: CliContext): Promise<Map<string, string[]> | undefined> {
  const { listImages } = await import('../../sandboxes/backends/docker/image/images.ts')
  const byId = new Map<string, string[]>()
  try {
    for (const { kind, name, harnesses } of await listImages(
      await engineOf(context),
      context.home.root,
      harnessStore,
    ))
      for (const id of kind === 'sandbox' && name !== undefined ? harnesses : [])
        byId.set(id, [...(byId.get(id) ?? []), name!])
    return byId
  } catch (error) {
    if (error instanceof CraikError && error.code === 'unavailable') return undefined
    throw error
  }
}

async function accountIds(context: CliContext): Promise<readonly string[]> {
  const logins = await hostLogins(context)
  return (await logins.accounts(context.signal)).map(({ id }) => id)
}

/** Returns the facts about one harness. */
export async function harnessRow(context: CliContext, requested: string): Promise<HarnessRow> {
  const rows = await harnessRows(context)
  const found = rows.find(({ name }) => name === requested)
  if (found !== undefined) return found
  if (requested === 'fixture')
    throw new CraikError('not_found', 'the fixture is part of Craik: there is nothing to install', {
      hint: 'try it:  craik prompt "RUN: ls" --harness fixture',
    })
  throw new CraikError('not_found', `unknown harness ${JSON.stringify(requested.slice(0, 60))}`, {
    hint: 'list the harnesses:  craik harness list',
  })
}
