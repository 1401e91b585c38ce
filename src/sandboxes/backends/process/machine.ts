/** Probes the features that this host offers to sandboxes, on first use. */
import { readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { CraikError } from '../../../errors.ts'
import { cacheSuccess } from '../../../lib/memoize.ts'
import { readPrivateFile } from '../../../lib/private-files.ts'
import { ensureCacheOfHome } from '../../../lib/user-cache.ts'
import { prepareRuntime, pruneRuntimes, type Runtime } from '../../runtime.ts'
import { type Cgroups, probeCgroups } from './cgroups.ts'
import { canMountImages } from './disk-image.ts'
import { type Bubblewrap, type FoundBubblewrap, findBubblewrapForSandboxes } from './find-bubblewrap.ts'
import { findPrograms, type HostPrograms } from './required-programs.ts'
import type { LimitSupport } from './resource-limits.ts'
import { warmCompileCache } from './warm-compile-cache.ts'

const RUNTIME_NOTE = 'runtime.json'
const MAX_NOTE_BYTES = 1024
const noteSchema = z.strictObject({ digest: z.string() })

export class HostFeatures {
  readonly #craikHome: string
  readonly #environment: NodeJS.ProcessEnv
  /** A user can install bubblewrap while the supervisor runs. */
  readonly probe = cacheSuccess<FoundBubblewrap>(
    () => findBubblewrapForSandboxes(this.#environment),
    (found) => 'bubblewrap' in found,
  )
  /** The kind of a sandbox's disk must not change, so only an error is not cached. */
  readonly #canMountImages = cacheSuccess(
    () => canMountImages(this.#craikHome),
    () => true,
  )
  #cgroups: Cgroups | undefined
  #runtime: Promise<Runtime> | undefined
  #programs: HostPrograms | undefined

  constructor(craikHome: string, environment: NodeJS.ProcessEnv) {
    this.#craikHome = craikHome
    this.#environment = environment
  }

  async bubblewrap(): Promise<Bubblewrap> {
    const found = await this.probe()
    if ('bubblewrap' in found) return found.bubblewrap
    throw new CraikError('unavailable', `process isolation is not available: ${found.reason}`, {
      hint: found.fix,
    })
  }

  get cgroups(): Cgroups {
    this.#cgroups ??= probeCgroups()
    return this.#cgroups
  }

  get programs(): HostPrograms {
    this.#programs ??= findPrograms(this.#environment)
    return this.#programs
  }

  async readLimitSupport(wantsDisk: boolean): Promise<LimitSupport> {
    const { memory, pids, cpu } = this.cgroups.parents
    return {
      cgroups: { memory: memory !== undefined, processes: pids !== undefined, cpu: cpu !== undefined },
      diskImage: wantsDisk && (await this.#canMountImages()),
    }
  }

  /** Returns the runtime, and records it in the sandbox's folder so that Craik keeps it as long as the sandbox. */
  async runtimeFor(sandboxFolder: string): Promise<Runtime> {
    this.#runtime ??= this.#prepare().catch((error) => {
      this.#runtime = undefined
      throw error
    })
    const runtime = await this.#runtime
    // A crash of the host can lose this unsynced file, but it also ends every sandbox that uses the runtime.
    const note = join(sandboxFolder, RUNTIME_NOTE)
    // Removes the old note first, because a link in a home from someone else could redirect the write.
    rmSync(note, { force: true })
    writeFileSync(note, JSON.stringify({ digest: runtime.digest }), { mode: 0o600, flag: 'wx' })
    return runtime
  }

  async #prepare(): Promise<Runtime> {
    const found = await this.probe()
    const bubblewrap = 'bubblewrap' in found ? found.bubblewrap : undefined
    const cache = ensureCacheOfHome(this.#craikHome, this.#environment)
    const runtime = await prepareRuntime({
      cache,
      warm: (folder) => warmCompileCache(folder, bubblewrap),
    })
    await pruneRuntimes(cache, new Set([runtime.digest, ...this.#listRecordedRuntimes()]))
    return runtime
  }

  #listRecordedRuntimes(): string[] {
    const sandboxes = join(this.#craikHome, 'sandboxes')
    return namesIn(sandboxes).flatMap((name) => {
      try {
        const note = readPrivateFile(join(sandboxes, name, RUNTIME_NOTE), MAX_NOTE_BYTES).toString()
        return [noteSchema.parse(JSON.parse(note)).digest]
      } catch {
        return []
      }
    })
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}
