/** The data with which a later process finds a container again. */
import { z } from 'zod'
import { CraikError } from '../../../errors.ts'
import { ENFORCEMENTS, type InstanceHandle, type LimitReport } from '../../backend.ts'

const enforcement = z.enum(ENFORCEMENTS)

const handleSchema = z.strictObject({
  container: z.string().regex(/^[0-9a-f]{64}$/),
  engine: z.string(),
  /** The id of its image. A newer image can exist since the sandbox was recorded. */
  image: z
    .string()
    .regex(/^sha256:[0-9a-f]{64}$/)
    .optional(),
  /** The engine's time format. A container that somebody restarted is another sandbox instance. */
  startedAt: z.string(),
  /** The number of its first process, as the engine reports it. */
  pid: z.int().positive(),
  hostUid: z.int().nonnegative(),
  memory: enforcement,
  processes: enforcement,
  cpu: enforcement,
  disk: enforcement,
})

export interface DockerHandle {
  readonly container: string
  readonly engine: string
  readonly image?: string | undefined
  readonly startedAt: string
  readonly pid: number
  readonly hostUid: number
  readonly limits: LimitReport
}

export function formatDockerHandle({ limits, image, ...rest }: DockerHandle): InstanceHandle {
  return { ...rest, ...(image !== undefined && { image }), ...limits }
}

export function parseDockerHandle(handle: InstanceHandle): DockerHandle {
  const parsed = handleSchema.safeParse(handle)
  if (!parsed.success)
    throw new CraikError('internal', 'the record of a sandbox does not describe its instance')
  const { memory, processes, cpu, disk, ...rest } = parsed.data
  return { ...rest, limits: { memory, processes, cpu, disk } }
}
