/** The common fields of sessions, runs and handoffs. */
import { z } from 'zod'
import { REFERENCE } from '../../lib/ids.ts'
import { ISOLATIONS } from '../../sandboxes/backend.ts'

export const VERSION = '0.1.0'
export const referenceField = z.string().regex(REFERENCE)
export const moment = z.iso.datetime()
export const isolation = z.enum(ISOLATIONS)
