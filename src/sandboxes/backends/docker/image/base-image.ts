/** Creates the root file system as an image of the engine, with the Dockerfile or with mmdebstrap. */
import { createReadStream } from 'node:fs'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { CraikError } from '../../../../errors.ts'
import type { Engine } from '../engine/engine.ts'
import { faultOf } from '../engine/engine-request.ts'
import { followAnswer } from './answer-lines.ts'
import { buildContext } from './build-context.ts'
import { findMmdebstrap, makeDebianTree } from './debian-tree.ts'
import { baseDockerfile, type ImageLabels, labelChanges } from './dockerfile.ts'
import { buildImage } from './engine-build.ts'
import { type OnProgress, progressWithin } from './image-progress.ts'
import { allPackages, type Recipe } from './recipe.ts'

export type ImageWay = 'registry' | 'mmdebstrap'

export interface BaseRequest {
  readonly recipe: Recipe
  readonly labels: ImageLabels
  /** undefined: the registry's base image if the engine can pull it, otherwise mmdebstrap. */
  readonly way: ImageWay | undefined
  readonly workFolder: string
  readonly environment: NodeJS.ProcessEnv
  readonly signal: AbortSignal
  readonly onProgress: OnProgress
}

const IMPORT_DEADLINE_MS = 10 * 60_000
const PULL_DEADLINE_MS = 10 * 60_000
const PULL_QUIET_MS = 20_000

/** Creates an image without a name and returns its id. */
export async function makeBase(engine: Engine, request: BaseRequest): Promise<string> {
  const mmdebstrap = findMmdebstrap()
  if (request.way === 'mmdebstrap') return fromDebian(engine, requireMmdebstrap(mmdebstrap), request)
  const fault = await whyNoParent(engine, request)
  if (fault === undefined) return fromRegistry(engine, request)
  if (request.way === 'registry') throw fault
  if (mmdebstrap === undefined) throw neither(fault)
  return fromDebian(engine, mmdebstrap, request)
}

async function fromDebian(engine: Engine, mmdebstrap: string, request: BaseRequest): Promise<string> {
  const { recipe, labels, workFolder, environment, signal, onProgress } = request
  requireOwnArchitecture(engine)
  const scripts = join(workFolder, 'recipe')
  await mkdir(scripts, { mode: 0o755 })
  for (const [name, content] of Object.entries(recipe.scripts)) {
    await writeFile(join(scripts, name), content)
    await chmod(join(scripts, name), 0o755)
  }
  const archive = await makeDebianTree(mmdebstrap, {
    suite: recipe.suite,
    epochSeconds: recipe.epochSeconds,
    packages: allPackages(recipe, labels.packages),
    arguments: recipe.mmdebstrap,
    finishScript: join(scripts, 'finish.sh'),
    workFolder,
    environment,
    signal,
    onProgress: progressWithin(onProgress, 0, 0.9),
  })
  onProgress({ part: 0.92, doing: 'importing it into the engine' })
  return importArchive(engine, archive, labelChanges(labels), signal)
}

async function importArchive(
  engine: Engine,
  archive: string,
  changes: readonly string[],
  signal: AbortSignal,
): Promise<string> {
  const doing = 'import an image'
  const call = async (until: AbortSignal) => {
    let id: string | undefined
    const options = { changes, abortSignal: until }
    await followAnswer(await engine.docker.importImage(createReadStream(archive), options), doing, (line) => {
      id = /^sha256:[0-9a-f]{64}$/.exec(line.status?.trim() ?? '')?.[0] ?? id
    })
    return id
  }
  const id = await engine.ask(doing, call, { deadlineMs: IMPORT_DEADLINE_MS, signal })
  if (id === undefined)
    throw new CraikError('unavailable', 'the engine did not report the id of the imported image')
  return id
}

async function fromRegistry(engine: Engine, request: BaseRequest): Promise<string> {
  const { recipe, labels, signal, onProgress } = request
  const packages = allPackages(recipe, labels.packages)
  const files = [
    {
      name: 'Dockerfile',
      mode: 0o644,
      content: Buffer.from(baseDockerfile(recipe.dockerfile, packages, labels)),
    },
    ...Object.entries(recipe.scripts).map(([name, content]) => ({ name, mode: 0o755, content })),
  ]
  const context = buildContext(files, recipe.epochSeconds)
  return buildImage(engine, context, { signal, onProgress: progressWithin(onProgress, 0.2, 1) })
}

/** Returns why the Dockerfile's parent image is unavailable. `undefined` when the engine has it or could pull it. */
async function whyNoParent(engine: Engine, request: BaseRequest): Promise<CraikError | undefined> {
  const { recipe, signal, onProgress } = request
  const name = /^FROM (\S+)/m.exec(recipe.dockerfile)![1]!
  const image = engine.docker.getImage(name)
  const there = await engine
    .ask('inspect an image', () => image.inspect(), { signal })
    .catch((error) => {
      if (faultOf(error) === 'gone') return undefined
      throw error
    })
  if (there !== undefined) return undefined
  onProgress({ part: 0, doing: `requesting ${name} from a registry` })
  try {
    await engine.ask('pull an image', (until) => pull(engine, name, until, request), {
      deadlineMs: PULL_DEADLINE_MS,
      signal,
    })
    return undefined
  } catch (error) {
    if (signal.aborted || !(error instanceof CraikError)) throw error
    return error
  }
}

async function pull(engine: Engine, name: string, until: AbortSignal, request: BaseRequest): Promise<void> {
  const quiet = new AbortController()
  const timer = setTimeout(() => quiet.abort(), PULL_QUIET_MS)
  const abortSignal = AbortSignal.any([until, quiet.signal])
  try {
    const answer = await engine.docker.pull(name, { abortSignal })
    await followAnswer(answer, 'pull an image', () => {
      timer.refresh()
      request.onProgress({ part: 0.1, doing: `downloading ${name}` })
    })
  } catch (error) {
    if (!quiet.signal.aborted) throw error
    throw new CraikError('unavailable', `cannot pull ${name}: the registry does not respond`, {
      hint: 'check the network, then try again:  craik image build',
      details: { engine: 'refused' },
    })
  } finally {
    clearTimeout(timer)
  }
}

function requireMmdebstrap(found: string | undefined): string {
  if (found !== undefined) return found
  throw new CraikError('unavailable', 'mmdebstrap is not installed', {
    hint: 'sudo apt-get install mmdebstrap',
  })
}

function requireOwnArchitecture(engine: Engine): void {
  if (engine.architecture === process.arch) return
  const message = `the engine runs ${engine.architecture}, but mmdebstrap here builds images for ${process.arch}`
  throw new CraikError('unavailable', message, { hint: 'craik image build --from registry' })
}

function neither(fault: CraikError): CraikError {
  return new CraikError('unavailable', `no base image: ${fault.message}`, {
    hint:
      process.platform === 'linux'
        ? 'build the image without a registry:  sudo apt-get install mmdebstrap && craik image build'
        : 'give the engine access to a registry, then run:  craik image build',
    cause: fault,
  })
}
