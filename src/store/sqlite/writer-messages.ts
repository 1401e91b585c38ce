/** What crosses between the main thread and the writer thread. */
import type { ErrorCode } from '../../errors.ts'

export interface Call {
  readonly n: number
  readonly name: string
  readonly input: unknown
}

export interface Answer {
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

export type ToWriter = { readonly close?: false; readonly calls: readonly Call[] } | { readonly close: true }

export type FromWriter =
  | { readonly failed: NonNullable<Answer['error']> }
  | { readonly closed?: false; readonly answers: readonly Answer[] }
  | { readonly closed: true; readonly error?: NonNullable<Answer['error']> }
