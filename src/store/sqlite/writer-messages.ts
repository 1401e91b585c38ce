/** The messages between the main thread and the writer thread. */
import type { ErrorCode } from '../../errors.ts'

export interface WriterCall {
  readonly n: number
  readonly name: string
  readonly input: unknown
}

export interface WriterAnswer {
  readonly n: number
  readonly value?: unknown
  readonly error?: {
    readonly code: ErrorCode
    readonly message: string
    readonly hint: string
    readonly details?: Readonly<Record<string, unknown>>
    readonly cause?: string
  }
}

export type ToWriter =
  | { readonly close?: false; readonly calls: readonly WriterCall[] }
  | { readonly close: true }

export type FromWriter =
  | { readonly failed: NonNullable<WriterAnswer['error']> }
  | { readonly closed?: false; readonly answers: readonly WriterAnswer[] }
  | { readonly closed: true; readonly error?: NonNullable<WriterAnswer['error']> }
