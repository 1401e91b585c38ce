/** Reads `config/limits.yaml`: the limits for all sandboxes of a home together, and the size of the warm pool. */
import { lstat } from 'node:fs/promises'
import { join } from 'node:path'
import { CraikError } from '../errors.ts'
import { readConfigFile } from '../providers/config-file.ts'
import { admissionLimits, LIMITS_FILE, readHostSize, warmPoolSize } from '../sandboxes/admission-settings.ts'
import type { AdmissionLimits } from '../sandboxes/lifecycle/admission.ts'
import type { ManagerLogger } from '../sandboxes/manager/manager-options.ts'
import type { Home } from '../store/home.ts'

export interface SandboxLimitsFile {
  readonly admission: AdmissionLimits
  readonly warmPlaces: number
}

type LimitsDeps = Pick<Home, 'config' | 'root'>

export async function readLimits({ config, root }: LimitsDeps): Promise<SandboxLimitsFile> {
  const reply = await readConfigFile(config, LIMITS_FILE)
  return { admission: admissionLimits(reply, readHostSize(root)), warmPlaces: warmPoolSize(reply) }
}

/** Reloads the file whenever it changes. While the file is invalid, the previous limits apply. */
export class LimitsFile {
  readonly #deps: LimitsDeps
  readonly #logger: ManagerLogger
  #seen: string
  #limits: SandboxLimitsFile

  private constructor(deps: LimitsDeps, logger: ManagerLogger, seen: string, limits: SandboxLimitsFile) {
    this.#deps = deps
    this.#logger = logger
    this.#seen = seen
    this.#limits = limits
  }

  /** Throws if the file is invalid, because no previous limits exist. */
  static async open(deps: LimitsDeps, logger: ManagerLogger): Promise<LimitsFile> {
    const seen = await identityOf(deps)
    return new LimitsFile(deps, logger, seen, await readLimits(deps))
  }

  async current(): Promise<SandboxLimitsFile> {
    // Identifies the file before it is read, so that a change in between is read next time.
    const seen = await identityOf(this.#deps)
    if (seen === this.#seen) return this.#limits
    try {
      const limits = await readLimits(this.#deps)
      this.#limits = limits
      this.#logger('info', `reloaded config/${LIMITS_FILE}`)
    } catch (error) {
      if (!(error instanceof CraikError) || error.code !== 'invalid_config') throw error
      this.#logger('error', `keeping the previous limits: ${error.message}`)
    }
    this.#seen = seen
    return this.#limits
  }
}

/** Returns an identity that changes with the file. It is always the same while the file is missing. */
async function identityOf({ config }: LimitsDeps): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await lstat(join(config, LIMITS_FILE), { bigint: true })
    return [dev, ino, size, mtimeNs, ctimeNs].join(' ')
  } catch {
    return 'none'
  }
}
