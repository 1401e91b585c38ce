/** The output of the process that reads OpenCode's database, line by line. It is as hostile as the database. */
import { z } from 'zod'
import { anything } from '../transcript-lines.ts'

const text = z.string()
/** A number counts as damaged too. */
const data = z.union([text, z.number(), z.null()])

export const databaseLine = z.union([
  z.object({
    session: z.object({
      id: text,
      directory: anything,
      title: anything,
      time_created: anything,
      parent_id: anything,
      revert: anything,
    }),
  }),
  /** `data` is null when it is longer than the limit. */
  z.object({ message: z.object({ id: text, time_created: anything, data }) }),
  z.object({ part: z.object({ data }) }),
  z.object({ ended: z.object({ cut: z.boolean() }) }),
  /** The reason why nothing, or nothing more, is read. */
  z.object({ refused: text }),
])
export type DatabaseLine = z.infer<typeof databaseLine>

/** The limit for one row. A message includes the content that was pasted into it. */
export const ROW_BYTES = 16 * 1024 * 1024
