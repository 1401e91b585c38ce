/** What the routes are given, and what they share. */

import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type {
  FastifyBaseLogger,
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  FastifyTypeProvider,
} from 'fastify'
import type { z } from 'zod'
import { CraikError } from '../errors.ts'
import type { UserProgram } from '../lib/host-programs.ts'
import type { SandboxId } from '../lib/ids.ts'
import { REFERENCE } from '../lib/ids.ts'
import type { ManagerCaller, SandboxManager } from '../sandboxes/manager-types.ts'
import { HEADER } from './api/api-constants.ts'
import type { SupervisorBody, VersionBody } from './api/bodies.ts'

export interface OperatorApiOptions {
  /** Settles when the sandboxes of the supervisor before are taken over; requests wait for it. */
  readonly manager: Promise<SandboxManager>
  /** Who acts, as this machine knows it: no request can say. */
  readonly operator: () => Promise<string>
  readonly token: string
  readonly supervisor: SupervisorControl
  /** Facts of what went wrong; never what was sent. */
  readonly onFault: (error: unknown, where: string) => void
}

/** The process behind the API. */
interface SupervisorControl {
  version(): VersionBody
  status(): Promise<SupervisorBody>
  /** Programs that it does not have yet, by their paths. It checks them whenever it uses one. */
  offerPrograms(programs: Readonly<Partial<Record<UserProgram, readonly string[]>>>): void
  readonly draining: boolean
  /** Answers at once; leaving follows. */
  drain(): void
}

/** A schema of zod is the type of what it lets through. */
export interface ZodTypes extends FastifyTypeProvider {
  readonly validator: this['schema'] extends z.ZodType ? z.output<this['schema']> : unknown
}

export type Api = FastifyInstance<Server, IncomingMessage, ServerResponse, FastifyBaseLogger, ZodTypes>

/** The sandboxes, and for each request who asks. */
export interface RouteContext {
  readonly options: OperatorApiOptions
  readonly manager: () => Promise<SandboxManager>
  caller(request: FastifyRequest, reply: FastifyReply): Promise<ManagerCaller>
}

const SANDBOX_ID = /^sbx_[0-9A-HJKMNP-TV-Z]{26}$/

/** A path names a sandbox by its id, or by its name. */
export async function resolveSandboxId(manager: SandboxManager, idOrName: string): Promise<SandboxId> {
  return SANDBOX_ID.test(idOrName) ? (idOrName as SandboxId) : (await manager.get(idOrName)).id
}

export async function callerOf(
  options: OperatorApiOptions,
  headers: IncomingMessage['headers'],
  signal: AbortSignal,
): Promise<ManagerCaller> {
  const grantId = headers[HEADER.grant]
  if (grantId !== undefined && (typeof grantId !== 'string' || !REFERENCE.test(grantId)))
    throw new CraikError('usage', `the header ${HEADER.grant} is not a grant id`)
  return { operator: await options.operator(), signal, ...(grantId !== undefined && { grantId }) }
}
