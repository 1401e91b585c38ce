/** The agents' command lines for tests: installed once and kept, and in an image of the tests' engine once for each run. */
import { execFileSync } from 'node:child_process'
import { chownSync, existsSync, mkdirSync, symlinkSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import {
  PACKAGED_HARNESS_NAMES,
  type PackagedHarnessName,
} from '../src/harnesses/packages/harness-catalogue.ts'
import { harnessStore } from '../src/harnesses/packages/harness-store.ts'
import { ensureHarnesses, type InstalledHarness } from '../src/harnesses/packages/install-harness.ts'
import { openEngine } from '../src/sandboxes/backends/docker/engine/engine.ts'
import { ensureImage, type ReadyImage } from '../src/sandboxes/backends/docker/image/ensure-image.ts'
import { harnessesFolder, type PackageOwner } from '../src/sandboxes/harness-package.ts'
import { ROOT } from './craik.ts'

/**
 * What npm fetched survives from run to run, in the cache of the user who tests: Craik uses no cache in a project. Tests of
 * several files may ask at once.
 */
const HOME = join(ROOT, 'build/test-harnesses')
const OWNER: PackageOwner = {
  craikHome: HOME,
  environment: { ...process.env, XDG_CACHE_HOME: join(homedir(), '.cache/craik-tests') },
}
/** The home of the tests' other images: one lock, and the root file system that is there already. */
const IMAGES_HOME = join(ROOT, 'build/test-engine/home')

/** For the hook that waits for either: npm's half a minute and the engine's minute, on a busy machine. */
export const HARNESSES_MS = 15 * 60_000

export async function readyHarnesses(
  names: readonly PackagedHarnessName[] = PACKAGED_HARNESS_NAMES,
): Promise<readonly InstalledHarness[]> {
  mkdirSync(HOME, { recursive: true, mode: 0o700 })
  const [, ...harnesses] = await ensureHarnesses(['npm', ...names], { ...OWNER, mounted: async () => [] })
  return harnesses
}

/** Where one of those lies. */
export async function harnessFolder(id: string): Promise<string> {
  return join(harnessesFolder(OWNER), id)
}

/** As tests run `craik`: with the folder that the home lies in as that of its user. */
function ownerOf(craikHome: string): PackageOwner {
  return { craikHome, environment: { HOME: dirname(craikHome) } }
}

/** A home that has them installed: nothing is fetched again. Not for tests that prune. */
export async function shareHarnesses(
  craikHome: string,
  names?: readonly PackagedHarnessName[],
): Promise<void> {
  await readyHarnesses(names)
  mkdirSync(craikHome, { recursive: true, mode: 0o700 })
  const link = harnessesFolder(ownerOf(craikHome))
  mkdirSync(dirname(link), { recursive: true, mode: 0o700 })
  if (!existsSync(link)) symlinkSync(harnessesFolder(OWNER), link)
}

/** The same for a home of another user, who may not look into those of the tests. */
export async function copyHarnesses(
  craikHome: string,
  names: readonly PackagedHarnessName[],
  uid: number,
): Promise<void> {
  await readyHarnesses(names)
  const folder = harnessesFolder(ownerOf(craikHome))
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  for (let path = folder; path !== dirname(craikHome); path = dirname(path)) chownSync(path, uid, uid)
  for (const id of harnessStore.ids(names)) {
    execFileSync('cp', ['-a', '--', join(harnessesFolder(OWNER), id), join(folder, id)])
    execFileSync('chown', ['-R', '-h', `${uid}:${uid}`, '--', join(folder, id)])
  }
}

/** With all of them, or those that are named; what `craik sandbox create --backend docker --harness …` finds. */
export async function readyHarnessImage(
  names: readonly PackagedHarnessName[] = PACKAGED_HARNESS_NAMES,
): Promise<ReadyImage> {
  await readyHarnesses(names)
  return ensureImage(
    await openEngine(process.env),
    { harnesses: harnessStore.ids(names) },
    {
      craikHome: IMAGES_HOME,
      environment: process.env,
      harnessFolder: harnessFolder,
    },
  )
}
