/** The dependencies of the routes, and the functions that they share. */

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
  /** Settles when the supervisor has taken over the sandboxes of its predecessor. Requests wait for it. */
  readonly manager: Promise<SandboxManager>
  /** Returns the operator of this host. A request cannot name another one. */
  readonly operator: () => Promise<string>
  readonly token: string
  readonly supervisor: SupervisorControl
  /** Receives the cause of an internal error, and never the content of a request. */
  readonly onFault: (error: unknown, where: string) => void
}

/** The supervisor process that serves the API. */
interface SupervisorControl {
  version(): VersionBody
  status(): Promise<SupervisorBody>
  /** Offers the paths of programs that the supervisor does not have yet. It verifies a program at each use. */
  offerPrograms(programs: Readonly<Partial<Record<UserProgram, readonly string[]>>>): void
  readonly draining: boolean
  /** Returns at once. The shutdown follows. */
  drain(): void
}

/** Gives each part of a request the output type of its zod schema. */
export interface ZodTypes extends FastifyTypeProvider {
  readonly validator: this['schema'] extends z.ZodType ? z.output<this['schema']> : unknown
}

export type Api = FastifyInstance<Server, IncomingMessage, ServerResponse, FastifyBaseLogger, ZodTypes>

/** The sandbox manager, and the caller of each request. */
export interface RouteContext {
  readonly options: OperatorApiOptions
  readonly manager: () => Promise<SandboxManager>
  caller(request: FastifyRequest, reply: FastifyReply): Promise<ManagerCaller>
}

const SANDBOX_ID = /^sbx_[0-9A-HJKMNP-TV-Z]{26}$/

/** Returns the id for a path that contains a sandbox's id or name. */
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
