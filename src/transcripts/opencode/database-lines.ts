/** What the process that reads OpenCode's database says, line by line. It is as hostile as the database. */
import { z } from 'zod'
import { anything } from '../transcript-lines.ts'

const text = z.string()
/** A number is damaged too. */
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
  /** `data` null: it is longer than what is read. */
  z.object({ message: z.object({ id: text, time_created: anything, data }) }),
  z.object({ part: z.object({ data }) }),
  z.object({ ended: z.object({ cut: z.boolean() }) }),
  /** Why none of it, or nothing more of it, is read. */
  z.object({ refused: text }),
])
export type DatabaseLine = z.infer<typeof databaseLine>

/** Of one row; a message with what was pasted into it. */
export const ROW_BYTES = 16 * 1024 * 1024
