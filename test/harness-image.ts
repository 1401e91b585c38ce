/**
 * Provides the agents' command lines for tests: installed once and cached, and once per run in an image of the test
 * engine.
 */
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
 * The packages that npm fetched stay from run to run, in the cache folder of the user who runs the tests. Craik uses no
 * cache in a project. Tests of several files may need it at the same time.
 */
const HOME = join(ROOT, 'build/test-harnesses')
const OWNER: PackageOwner = {
  craikHome: HOME,
  environment: { ...process.env, XDG_CACHE_HOME: join(homedir(), '.cache/craik-tests') },
}
/** The home of the other test images, so that there is one lock and the root file system is already built. */
const IMAGES_HOME = join(ROOT, 'build/test-engine/home')

/**
 * The timeout of a hook that waits for either. npm needs half a minute and the engine a minute, and a busy host needs
 * more.
 */
export const HARNESSES_MS = 15 * 60_000

export async function readyHarnesses(
  names: readonly PackagedHarnessName[] = PACKAGED_HARNESS_NAMES,
): Promise<readonly InstalledHarness[]> {
  mkdirSync(HOME, { recursive: true, mode: 0o700 })
  const [, ...harnesses] = await ensureHarnesses(['npm', ...names], { ...OWNER, mounted: async () => [] })
  return harnesses
}

/** Returns the folder of an installed package. */
export async function harnessFolder(id: string): Promise<string> {
  return join(harnessesFolder(OWNER), id)
}

/** Returns the owner as tests run `craik`: the folder above the Craik home is the home folder of its user. */
function ownerOf(craikHome: string): PackageOwner {
  return { craikHome, environment: { HOME: dirname(craikHome) } }
}

/** Links the installed packages into a home, so that nothing is fetched again. Not for tests that prune. */
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

/** Copies the packages into the home of another user, who cannot read those of the tests. */
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

/**
 * Builds the image with all agents or the named ones, which `craik sandbox create --backend docker --harness …` then
 * finds.
 */
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
