/**
 * Builds the image that sandboxes run: a root file system of Debian packages, a layer for each requested harness, and
 * Craik's own program in one layer on top. Its name is derived from its inputs, so Craik builds it only when they
 * change. It gets the name only when it is complete.
 */
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { CraikError } from '../../../../errors.ts'
import { ensurePrivateFolder } from '../../../../lib/private-files.ts'
import { waitForFileLock } from '../../../../lib/wait-for-lock.ts'
import { agentsOf, harnessName, requireInstalledHarness } from '../../../harness-package.ts'
import { type RuntimeFile, runtimeFiles } from '../../../runtime.ts'
import type { Engine } from '../engine/engine.ts'
import { isGone } from '../engine/engine-request.ts'
import { type ImageWay, makeBase } from './base-image.ts'
import { buildContext, dockerfileOf } from './build-context.ts'
import { IMAGE_LABELS, type ImageLabels, SANDBOX_CONFIG, sandboxDockerfile } from './dockerfile.ts'
import { buildImage } from './engine-build.ts'
import { addHarness, type HarnessFolder } from './harness-layer.ts'
import { imageName, replacementName, wholeId } from './image-names.ts'
import { type OnProgress, progressWithin } from './image-progress.ts'
import { checkPackages } from './packages.ts'
import { baseKey, harnessKey, type Recipe, readRecipe, sandboxKey } from './recipe.ts'
import { digestsOf } from './runtime-digests.ts'

export interface ImageRequest {
  /** Names of Debian packages, in addition to the recipe's. */
  readonly packages?: readonly string[]
  /** Build the image again with current packages, even if it exists. */
  readonly fresh?: boolean
  readonly way?: ImageWay | undefined
  /** The ids of its harnesses, lowest layer first. Building needs them to be installed. */
  readonly harnesses?: readonly string[]
  /**
   * For runtimes such as gVisor that run only readable programs. Otherwise no program in the sandbox can read the
   * sidecar.
   */
  readonly readableNode?: boolean
}

export interface EnsureOptions {
  readonly craikHome: string
  readonly environment: NodeJS.ProcessEnv
  readonly signal?: AbortSignal
  readonly progress?: OnProgress
  /** Without it, the requested harnesses must be installed already. */
  readonly harnessFolder?: HarnessFolder
}

export interface ReadyImage {
  /** The engine's own id, `sha256:…`. */
  readonly id: string
  readonly name: string
  /** Whether this call built it. */
  readonly made: boolean
}

const WORK = 'work-'

/**
 * Returns the image if it exists. It never builds one, because a build takes a minute and the user must see its
 * progress.
 */
export async function findBuiltImage(
  engine: Engine,
  request: ImageRequest,
  { craikHome }: Pick<EnsureOptions, 'craikHome'>,
): Promise<{ readonly id: string; readonly name: string; readonly harnesses: readonly string[] }> {
  const folder = join(craikHome, 'cache/images')
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const { sandbox } = await resolveImage(engine, request, folder)
  const found = await findImage(engine, sandbox)
  if (found !== undefined) return { ...found, harnesses: request.harnesses ?? [] }
  const names = agentsOf(request.harnesses ?? []).map(harnessName)
  const added = names.length === 0 ? '' : ` --harness ${names.join(',')}`
  throw new CraikError('not_found', 'the container image for this craik is not built yet', {
    hint: `build the image, which takes about a minute:  craik image build${added}`,
    details: { missing: 'image' },
  })
}

export async function ensureImage(
  engine: Engine,
  request: ImageRequest,
  options: EnsureOptions,
): Promise<ReadyImage> {
  requireSameMachine(engine)
  const signal = options.signal ?? new AbortController().signal
  const progress = options.progress ?? (() => {})
  const folder = join(options.craikHome, 'cache/images')
  ensurePrivateFolder(options.craikHome, 'home')
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const wanted = await resolveImage(engine, request, folder)
  const found = await findImage(engine, wanted.sandbox)
  if (found !== undefined && request.fresh !== true) return { ...found, made: false }

  using _lock = await waitForFileLock(join(folder, 'lock'), 'image lock', {
    doing: 'builds an image',
    signal,
    onWait: () => progress({ part: 0, doing: 'waiting for another craik to build an image' }),
  })
  const meanwhile = await findImage(engine, wanted.sandbox)
  if (meanwhile !== undefined && (request.fresh !== true || meanwhile.id !== found?.id))
    return { ...meanwhile, made: false }
  await removeAbandoned(folder)
  const workFolder = await mkdtemp(join(folder, WORK))
  try {
    return await make(engine, wanted, request, { ...options, signal, progress, workFolder })
  } finally {
    await rm(workFolder, { recursive: true, force: true })
  }
}

interface Wanted {
  readonly recipe: Recipe
  readonly base: ImageLabels
  /** From the lowest up. Each entry includes all layers below it. */
  readonly harnesses: readonly ImageLabels[]
  readonly sandbox: ImageLabels
}

/** Resolves the inputs of the image for this build of Craik and this engine. */
export async function resolveImage(engine: Engine, request: ImageRequest, folder: string): Promise<Wanted> {
  const recipe = readRecipe()
  const requests = checkPackages(request.packages ?? [])
  // A package that every image has changes nothing: the image is the same with and without it.
  const packages = requests.filter((name) => !recipe.packages.includes(name))
  const base = baseKey(recipe, packages, engine.architecture)
  const ids = request.harnesses ?? []
  const harnesses: ImageLabels[] = []
  for (const [at, id] of ids.entries()) {
    const inputs = harnessKey(harnesses.at(-1)?.inputs ?? base, id)
    harnesses.push({ kind: 'harness', inputs, packages, harnesses: ids.slice(0, at + 1) })
  }
  const below = harnesses.at(-1)?.inputs ?? base
  const sandbox = sandboxKey(below, await digestsOf(filesFor(request), folder), SANDBOX_CONFIG)
  return {
    recipe,
    base: { kind: 'base', inputs: base, packages },
    harnesses,
    sandbox: { kind: 'sandbox', inputs: sandbox, packages, ...(ids.length > 0 && { harnesses: ids }) },
  }
}

function filesFor({ readableNode }: ImageRequest): readonly RuntimeFile[] {
  return runtimeFiles().map((file) =>
    file.name === 'node' && readableNode ? { ...file, mode: 0o555 } : file,
  )
}

interface MakeOptions extends EnsureOptions {
  readonly signal: AbortSignal
  readonly progress: OnProgress
  readonly workFolder: string
}

async function make(
  engine: Engine,
  wanted: Wanted,
  request: ImageRequest,
  options: MakeOptions,
): Promise<ReadyImage> {
  const { signal, progress } = options
  const below = await makeBelow(engine, wanted, request, options)
  const onProgress = progressWithin(progress, below.made ? 0.9 : 0, 1)
  onProgress({ part: 0.1, doing: 'adding the Craik runtime' })
  const labels = wanted.sandbox
  const named = await makeAndName(engine, labels, signal, () => {
    const files = [
      dockerfileOf(sandboxDockerfile(below.id, labels)),
      ...filesFor(request).map(({ name, path, mode }) => ({
        name: `craik/${name}`,
        mode,
        content: { path },
      })),
    ]
    return buildImage(engine, buildContext(files, wanted.recipe.epochSeconds), { signal, onProgress })
  })
  progress({ part: 1, doing: 'done' })
  return { ...named, made: true }
}

/** Builds everything except Craik's own layer, starting above the highest layer that exists. */
async function makeBelow(
  engine: Engine,
  wanted: Wanted,
  request: ImageRequest,
  options: MakeOptions,
): Promise<Named & { readonly made: boolean }> {
  const { signal, progress } = options
  const folderOf = options.harnessFolder ?? ((id) => requireInstalledHarness(options, id))
  const layers = [wanted.base, ...wanted.harnesses]
  const top = request.fresh ? undefined : await highestThere(engine, layers)
  let below = top?.image
  for (const [at, labels] of layers.entries()) {
    if (top !== undefined && at <= top.at) continue
    const parent = below
    const onProgress = progressWithin(progress, (0.9 * at) / layers.length, (0.9 * (at + 1)) / layers.length)
    below = await makeAndName(engine, labels, signal, () =>
      parent === undefined
        ? newBase(engine, wanted, request, { ...options, progress: onProgress })
        : addHarness(engine, parent.id, labels, { folderOf, signal, onProgress, ...wanted.recipe }),
    )
  }
  return { ...below!, made: top?.at !== layers.length - 1 }
}

async function highestThere(
  engine: Engine,
  layers: readonly ImageLabels[],
): Promise<{ readonly image: Named; readonly at: number } | undefined> {
  for (let at = layers.length - 1; at >= 0; at--) {
    const image = await findImage(engine, layers[at]!)
    if (image !== undefined) return { image, at }
  }
  return undefined
}

function newBase(
  engine: Engine,
  wanted: Wanted,
  { way }: ImageRequest,
  options: MakeOptions,
): Promise<string> {
  const { workFolder, environment, signal, progress } = options
  return makeBase(engine, {
    recipe: wanted.recipe,
    labels: wanted.base,
    way,
    workFolder,
    environment,
    signal,
    onProgress: progress,
  })
}

interface Named {
  readonly id: string
  readonly name: string
}

/**
 * Names the image last, when it is complete. The previous image of that name gets its own name. A sandbox may need it,
 * and engines remove images without names.
 */
async function makeAndName(
  engine: Engine,
  labels: ImageLabels,
  signal: AbortSignal,
  make: () => Promise<string>,
): Promise<Named> {
  const id = await make()
  signal.throwIfAborted()
  const before = await findImage(engine, labels)
  const name = (image: string, as: string) => {
    const [repo, tag] = as.split(':') as [string, string]
    return engine.ask('tag an image', () => engine.docker.getImage(image).tag({ repo, tag }))
  }
  if (before !== undefined && before.id !== id) await name(before.id, replacementName(labels, before.id))
  await name(id, imageName(labels))
  return { id, name: imageName(labels) }
}

/** Finds an image by its name. Its label must confirm that it has the same inputs. */
async function findImage(engine: Engine, labels: ImageLabels): Promise<Named | undefined> {
  const name = imageName(labels)
  try {
    const { Id, Config } = await engine.ask('inspect an image', () => engine.docker.getImage(name).inspect())
    if (Config.Labels?.[IMAGE_LABELS.inputs] !== labels.inputs) return undefined
    return { id: wholeId(Id), name }
  } catch (error) {
    if (isGone(error)) return undefined
    throw error
  }
}

/**
 * Removes leftover work folders. Only the holder of the lock has one, so every other one belongs to a killed process.
 */
async function removeAbandoned(folder: string): Promise<void> {
  for (const name of await readdir(folder))
    if (name.startsWith(WORK)) await rm(join(folder, name), { recursive: true, force: true })
}

function requireSameMachine(engine: Engine): void {
  if (process.platform === 'linux' && engine.architecture === process.arch) return
  const message = `the image contains the Node.js that runs Craik, built for ${process.platform} on ${process.arch}`
  throw new CraikError('unavailable', `${message}; the engine runs Linux on ${engine.architecture}`, {
    hint: 'name an image that was built on such a machine:  craik sandbox create --backend docker --image NAME',
  })
}
