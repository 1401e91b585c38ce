/** What all sandboxes of a home may have together, and how many places may wait for one: as `config/limits.yaml` says. */
import { lstat } from 'node:fs/promises'
import { join } from 'node:path'
import { CraikError } from '../errors.ts'
import { readConfigFile } from '../providers/config-file.ts'
import { admissionLimits, LIMITS_FILE, thisMachine, warmPoolSize } from '../sandboxes/admission-settings.ts'
import type { AdmissionLimits } from '../sandboxes/lifecycle/admission.ts'
import type { ManagerLogger } from '../sandboxes/manager/options.ts'
import type { Home } from '../store/home.ts'

export interface SandboxLimitsFile {
  readonly admission: AdmissionLimits
  readonly warmPlaces: number
}

type LimitsPlace = Pick<Home, 'config' | 'root'>

export async function readLimits({ config, root }: LimitsPlace): Promise<SandboxLimitsFile> {
  const said = await readConfigFile(config, LIMITS_FILE)
  return { admission: admissionLimits(said, thisMachine(root)), warmPlaces: warmPoolSize(said) }
}

/** Read again whenever the file is another one; while it cannot be understood, what it said before holds. */
export class LimitsFile {
  readonly #place: LimitsPlace
  readonly #logger: ManagerLogger
  #seen: string
  #limits: SandboxLimitsFile

  private constructor(place: LimitsPlace, logger: ManagerLogger, seen: string, limits: SandboxLimitsFile) {
    this.#place = place
    this.#logger = logger
    this.#seen = seen
    this.#limits = limits
  }

  /** Throws when there is one that cannot be understood: nothing was said before. */
  static async open(place: LimitsPlace, logger: ManagerLogger): Promise<LimitsFile> {
    const seen = await identityOf(place)
    return new LimitsFile(place, logger, seen, await readLimits(place))
  }

  async current(): Promise<SandboxLimitsFile> {
    // Looked at before it is read: what changes in between is read next time.
    const seen = await identityOf(this.#place)
    if (seen === this.#seen) return this.#limits
    try {
      const limits = await readLimits(this.#place)
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

/** Of the file as it is; the same for all moments at which there is none. */
async function identityOf({ config }: LimitsPlace): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await lstat(join(config, LIMITS_FILE), { bigint: true })
    return [dev, ino, size, mtimeNs, ctimeNs].join(' ')
  } catch {
    return 'none'
  }
}
