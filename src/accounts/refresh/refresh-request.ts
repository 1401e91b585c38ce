/** The input and the result of the refresh process: names and digests, never a token. */
import { z } from 'zod'

export const refreshRequest = z.object({
  craikHome: z.string(),
  /** Host folders that sandboxes can write. */
  mounted: z.array(z.string()),
  userHome: z.string(),
  platform: z.string(),
  accountId: z.string(),
  unwanted: z.string(),
  overrides: z.unknown(),
  authorities: z.array(z.string()).optional(),
  /** For locks, the issuer and the file together. */
  deadlineMs: z.int().positive(),
})
export type RefreshRequest = z.infer<typeof refreshRequest>

export const refreshResult = z.union([
  z.object({ outcome: z.enum(['refreshed', 'adopted', 'ended', 'absent']) }),
  z.object({ outcome: z.literal('failed'), reason: z.string().max(1_000) }),
])
